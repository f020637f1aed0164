// Package apply brings the objects that a controller owns to their desired state by server-side apply, and sends only writes that
// change something.
//
// # Invariants
//
// Each has its own test, and a mutant in test/mutants that the test must catch.
//
//  1. No redundant writes. An object is left alone when the cached copy contains the desired object, its hash included (annotation
//     [hashAnnotation]). The containment check finds drift. The hash finds fields that are no longer desired. Both are read from the
//     object itself, so a restart of the operator changes nothing. A field that admission mutates, or that the API server does not
//     store, is written once per start.
//  2. Containment is semantic: defaults, quantities, dropped zero values, lists with merge keys, integers and floats.
//     See [differences].
//  3. Fields, list items, map keys and whole blocks that are no longer desired are removed from the live object. Server-side apply does
//     that, with one field owner per controller.
//  4. Drift in desired fields is repaired. Fields that other clients added are left alone, unless they make the desired object invalid.
//  5. A foreign object is never changed or adopted, not even one that the cache does not hold because it lacks the cache's label. The
//     first apply of an object can therefore only create, see [createOnly]. A child of a former object of the owner's name is not foreign:
//     it is left to the garbage collector.
//  6. Read your own writes: until the cache has caught up with the last write to an object, that object is not written again. Creating n
//     objects costs n writes.
//  7. Deletes carry the UID and resourceVersion of the evaluated copy, and delete only what the owner controls.
//  8. A rejected change (of an immutable field, for example) is returned as a [WriteError] around the API server's error. No object is
//     deleted to be re-created.
//  9. The same input gives the same bytes and the same hash.
//  10. An object that is being deleted is not applied. Its deletion wakes the controller.
//
// # What callers must do
//
// Server-side apply does not delete an object that is no longer applied: pass it to [Applier.Prune]. Generated or mostly immutable objects
// (password Secrets, Jobs) go through [Applier.Create]. Leave a field that another client sets, such as replicas under an autoscaler,
// out of the desired object. Watches of owned objects carry no predicate, and the owner's own watch lets status updates through: they
// wake a controller that returned because the cache was behind.
package apply
