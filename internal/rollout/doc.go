// Package rollout restarts workloads when the contents of the ConfigMaps and Secrets that they use have changed. AppConfig, VoteConfig
// and the plain ConfigMaps and Secrets of WebApps share this engine.
//
// # Invariants
//
// Each has its own tests, and mutants in test/mutants/rollout.yaml that the tests must catch.
//
//  1. Level-triggered: the decision depends only on the published contents and on the annotations and rollout state of the workloads,
//     never on an event. A crash between two writes loses nothing, changes made while the operator is down are found afterwards, and a
//     start or an upgrade of the operator restarts nothing.
//  2. A workload is restarted if and only if a key that it uses has changed since its pods started: once per change, and once for all
//     changes within the debounce. A missing key counts as a value.
//  3. The restart and its record are one write, with the resourceVersion of the workload that was evaluated.
//  4. What the pods run is recorded before it is replaced. A workload without a record gets one without a restart: it names the published
//     contents, or before a change the contents that were published ([Engine.RecordBaseline]). Only a workload that was created or changed
//     within seconds of a publication, where either may be true, is restarted to be sure.
//  5. No fights. A client that rewrites or removes the annotation of a pod template restarts the pods itself, which then run what
//     is published. This is recorded, not answered by another restart. Removed records are written again no faster than MinInterval.
//  6. At most MaxConcurrent restarts of an owner are in progress. The next starts when one is complete. A failed restart blocks all others
//     until it recovers or the configuration changes again. Then it is retried first.
//  7. A workload that cannot complete without a person (paused, or with strategy OnDelete) is annotated and blocks no other. A workload
//     without pods is annotated without waiting.
//  8. No restart into failure: while a required key is not published, the workload is left alone and reported.
//  9. A restart after a publication covers it, whichever owner requested the restart: two AppConfigs that change at the same time restart
//     a shared workload once.
//  10. Contents of Secrets appear in no annotation, status or event, except in a digest with the installation's key. A hash with another key,
//     or of a release without keys, counts as the hash of the present contents.
//  11. Versioned mode: no workload moves to a version whose used keys are equal, a broken reference is repaired at once, and a version that
//     a pod may still start from is not reported as unused.
//  12. No redundant writes. The engine waits until the cache shows its own writes, see [apply.Expectations].
//
// Known limits: pods that restarted within ten seconds of a change, when the change was reverted before the cache showed it, count as pods
// that never saw the change. The same holds for single pods that crashed then, for an edit by another client, and for the first of two edits
// before the operator saw either. A workload whose baseline record is removed while its restart is pending counts as up to date, unless its
// pods were restarted.
//
// # Annotations
//
// For an owner called NAME, with PREFIX [ConfigPrefix], [VotingPrefix], [ConfigMapPrefix] or [SecretPrefix] (a name of more than 63
// characters is shortened, with a hash):
//
//   - PREFIX/NAME on the pod template: the hash of what the pods use. Setting it restarts them.
//   - PREFIX/NAME on the workload, the [record]: the hash, and when it was written. It counts while the template's annotation is the one
//     that it was written with.
//   - [UsesAnnotation] on the workload: AppConfigs whose keys it all uses, and VoteConfigs, separated by commas.
//   - [CreatedWithAnnotation] on a workload: the versions of plain objects just before it was created, in case one changes before the first
//     record.
//   - [PublishedAnnotation] on a ConfigMap or Secret: when its contents were last replaced, see [PublishedAt].
//
// The first digits of a hash identify the set of keys. When they differ from the keys in use, the template was changed and its pods were
// restarted, so the record is written again.
//
// # What callers must do
//
// [Engine.BeginReconcile] when a reconcile begins. Then in this order, in each reconcile, with live objects from the cache or the API server
// that are never older than the caller's own writes:
//
//  1. If the contents are about to change or to appear: [Engine.RecordBaseline] with the live contents. Return when it says so.
//  2. Write the objects, with PublishedAnnotation: [PublishedAt] in the same write.
//  3. [Engine.Roll] with the then live contents, in every reconcile. Report its result, and requeue after Report.RequeueAfter.
//
// Also: [Engine.Watch] once, [Engine.Release] before the owner's finalizer is removed, [Engine.Unused] before versions are deleted.
// Pass the objects of both kinds that the owner may publish in every call; set Exists to false for those that do not exist.
//
// An object that Fettle does not publish is its own owner. Its callers ask [Engine.AllRunning], read the object if they must, and call
// [Engine.Roll] alone: other clients change the object, so there is no moment before the change to record a baseline.
//
// The role needs, as markers of the controllers that use this package:
//
//	groups=apps, resources=deployments;statefulsets;daemonsets, verbs=get;list;watch;patch
//	groups=apps, resources=replicasets;controllerrevisions, verbs=list
package rollout
