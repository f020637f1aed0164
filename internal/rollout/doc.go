// Package rollout restarts workloads when the contents of ConfigMaps and Secrets that they use have changed: the one engine behind
// AppConfig, VoteConfig, and the plain ConfigMaps and Secrets that WebApps name.
//
// # Invariants
//
// Each has tests of its own, and mutants in test/mutants/rollout.yaml that they must catch.
//
//  1. What to do follows from the annotations and the rollout state of the workloads, and from what is published: never from
//     an event. So nothing is lost when the operator dies between two writes, changes made while it is down are found
//     afterwards, and a start or an upgrade of the operator restarts nothing.
//  2. A workload is restarted when, and only when, a key that it uses has changed since its pods were started: once for
//     each change, and once for all changes within the debounce. That a key is missing is a value like any other.
//  3. The restart and the note of it are one write, for the version of the workload that was judged.
//  4. What the pods run is known before it is replaced: a workload without a note gets one, without a restart, that says
//     what is published; before a change, one that says what was published ([Engine.Adopt]). Only a workload that was made
//     or changed within seconds of a publication, so that either may be true, is restarted to be sure.
//  5. No fights. Whoever rewrites or removes the annotation of a pod template restarts the pods with it, which then run what
//     is published: that is noted, and answered by no restart. Removed notes are written again no faster than MinInterval.
//  6. At most MaxConcurrent restarts of an owner are under way; the next starts when the one before is complete. One that
//     failed lets no other start, until it recovers or the configuration changes again: then it is the first.
//  7. A workload that can't complete by itself (paused, or with strategy OnDelete) is annotated and blocks no other. One
//     that has no pods is annotated without waiting.
//  8. Pods that could not start are not asked for: while a key that a workload can't do without is not published, it is
//     left alone, and reported.
//  9. A restart that came after a publication covers it, whichever owner asked for it: two AppConfigs that change at the
//     same time restart their common workload once.
//  10. Contents of Secrets show in no annotation, status or event, except through a digest with the key of the installation. A hash
//     with another key, or of a release that had none, is that of the present contents.
//  11. In versioned mode nobody is moved to another version whose used keys are equal, a reference that leads nowhere is
//     repaired at once, and a version that anything may still start from is not reported as unused.
//  12. Nothing is written that would not change anything. Own writes are waited for, see memory.
//
// What remains: pods that were started anew within ten seconds of a change, which is taken back before the cache shows that,
// count as pods that never saw the change; so do single pods that crashed then. The same goes for an edit by somebody else, and
// for the first of two that came before the operator saw one. And a workload whose note of an adoption is
// removed while its restart is pending is taken for one that is up to date, unless its pods were started anew.
//
// # Annotations
//
// For an owner called NAME, with PREFIX [ConfigPrefix], [VotingPrefix], [ConfigMapPrefix] or [SecretPrefix] (a name of more than 63
// characters is shortened, with a hash):
//
//   - PREFIX/NAME on the pod template: the hash of what the pods use. Setting it is what restarts them.
//   - PREFIX/NAME on the workload, the note ([note]): the hash, and when it was written. It is what counts as long as the
//     template's annotation is the one that it was written with.
//   - [UsesAnnotation] on the workload: AppConfigs of which it uses all keys, and VoteConfigs, separated by commas.
//   - [CreatedWithAnnotation] on a workload: the versions of plain objects just before it was created, should one change before the first note.
//   - [PublishedAnnotation] on a ConfigMap or Secret: when its contents were last replaced, see [Stamp].
//
// The first digits of a hash say which keys it is of. When they differ from those in use, the template was changed, so
// that its pods were started anew, and the note is written again.
//
// # What callers must do
//
// [Engine.Begin] as a pass begins. Then in this order, in each pass, with the live objects read from the cache or the API server but never older than the
// caller's own writes:
//
//  1. If the contents are about to change or to appear: [Engine.Adopt] with what is live. Return when it says so.
//  2. Write the objects, with PublishedAnnotation: [Stamp] in the same write.
//  3. [Engine.Roll] with what is then live, in every pass; report what it says, and come back after Report.Wake.
//
// Also: [Engine.Watch] once, [Engine.Release] before the owner's finalizer goes, [Engine.Unused] before versions are deleted.
// Objects of both kinds that the owner may publish are always passed, those that do not exist with Exists false.
//
// For an object that Fettle does not publish, which is an owner of its own, callers ask [Engine.Known], read it if they must, and call
// [Engine.Roll] alone: others change it, so that nothing can be noted before that.
//
// The role needs, as markers of the controllers that use this package:
//
//	groups=apps, resources=deployments;statefulsets;daemonsets, verbs=get;list;watch;patch
//	groups=apps, resources=replicasets;controllerrevisions, verbs=list
package rollout
