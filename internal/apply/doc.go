// Package apply makes the objects that a controller owns be what they should be, by
// server-side apply, and keeps the writes to those that change something.
//
// # Invariants
//
// Each has a test of its own, and a mutant in test/mutants that the test must catch.
//
//  1. Nothing is written that would not change anything. An object is left alone when the
//     cached copy contains what is desired, the hash of the desired object (annotation
//     [HashAnnotation]) included. The containment finds drift, the hash finds what is desired
//     no longer. Both are read from the object itself, so a restart changes nothing. What
//     admission overrules, or the API server does not store, is written once for each start.
//  2. Containment is semantic: defaults, quantities, dropped zero values, lists with merge
//     keys, integers and floats. See [differences].
//  3. What is no longer desired is removed from the live object: fields, list items, map keys,
//     whole blocks. Server-side apply does that, for one field owner per controller.
//  4. Drift in what is desired is repaired; what others added is left alone.
//  5. A foreign object is never changed and never taken over, not even one that the cache does
//     not hold because it lacks the label that the cache selects by. The first apply of an
//     object can therefore only create, see [createOnly]. A child of a former object of the
//     owner's name is not foreign but left to the garbage collector.
//  6. Own writes are waited for: until the cache has caught up with the last write to an
//     object, that object is not written again. Creating n objects costs n writes.
//  7. Deletes carry the UID and resourceVersion of the copy that was judged, and only what the
//     owner controls is deleted.
//  8. A refused change (an immutable field, say) is returned as a [WriteError] around the API
//     server's error. Nothing is deleted in order to be created anew.
//  9. The same input gives the same bytes and the same hash.
//  10. An object that is being deleted is not applied to. Its end wakes the controller.
//
// # What callers must do
//
// Server-side apply does not delete an object that is no longer applied: name it to
// [Applier.Prune]. Objects that are generated or mostly immutable (password Secrets, Jobs) go
// through [Applier.Create]. A field that somebody else sets, such as replicas under an
// autoscaler, is left out of the desired object. Watches of owned objects carry no predicate,
// and the owner's own watch lets status updates pass: they are what wakes a controller that
// returned because the cache was behind.
package apply
