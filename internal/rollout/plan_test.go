package rollout

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	"github.com/fettle-dev/fettle/internal/digest"
)

var (
	theOwner  = Owner{Prefix: ConfigPrefix, Namespace: "web", Name: "shop"}
	thePolicy = Policy{Debounce: 5 * time.Second, MinInterval: 30 * time.Second, MaxConcurrent: 1}
)

const theKey = "config.fettle.dev/shop"

// published is a ConfigMap with those values of the keys a and b, which replaced others an hour ago.
func published(a, b string) Object {
	return Object{
		Kind: ConfigMap, Target: "shop-config", Name: "shop-config", Exists: true,
		Data:        map[string][]byte{"a": []byte(a), "b": []byte(b)},
		PublishedAt: PublishedAt("", true, true, start.Add(-time.Hour)),
	}
}

func publishedAt(o Object, at time.Time) Object {
	o.PublishedAt = PublishedAt("", true, true, at)
	return o
}

// user is an old workload that uses key a, is completely rolled out, and has no record.
func user(kind, name string, change ...func(*Workload)) *Workload {
	w := &Workload{
		Kind: kind, Namespace: "web", Name: name, UID: "u", ResourceVersion: "1",
		References: []Reference{{Kind: ConfigMap, Name: "shop-config", Key: "a"}},
		created:    start.Add(-24 * time.Hour), changed: start.Add(-24 * time.Hour),
		records: map[string]string{}, templates: map[string]string{},
		Progress: Progress{Phase: Complete, Pods: 3, deadline: kind == Deployment},
	}
	for _, f := range change {
		f(w)
	}
	return w
}

// testKey is the key for digests in tests.
var testKey = digest.Key("key of the tests")

// hashFor is the hash of what w runs if o is published.
func hashFor(w *Workload, o ...Object) string {
	return hashOf(testKey, theOwner, theOwner.usesOf(w, o))
}

// recorded adds a baseline record that names o.
func recorded(o Object) func(*Workload) {
	return func(w *Workload) {
		w.records[theKey] = baselineRecord(hashFor(w, o), w.templates[theKey], time.Time{}, start.Add(-2*time.Hour)).String()
	}
}

// rolled adds the record of a restart by the engine with o at that time.
func rolled(o Object, at time.Time) func(*Workload) {
	return func(w *Workload) {
		w.records[theKey], w.templates[theKey] = restartRecord(hashFor(w, o), at).String(), hashFor(w, o)
	}
}

func phase(p Phase) func(*Workload) { return func(w *Workload) { w.Progress.Phase = p } }

func references(refs ...Reference) func(*Workload) { return func(w *Workload) { w.References = refs } }

func changedAt(at time.Time) func(*Workload) { return func(w *Workload) { w.changed = at } }

// outcome summarizes a plan.
type outcome struct {
	Records, Restarts []string
	States            map[string]State
	Reason            string
	RequeueAfter      time.Duration
}

func decided(now time.Time, policy Policy, objects []Object, workloads ...*Workload) outcome {
	return decidedWith(lastWrite{}, now, policy, objects, workloads...)
}

func decidedWith(r lastWrite, now time.Time, policy Policy, objects []Object, workloads ...*Workload) outcome {
	p := &evaluation{now: now, owner: theOwner, policy: policy, published: objects, key: testKey}
	plan := p.decide(workloads, func(*Workload) lastWrite { return r })
	report := p.report(&plan, nil)
	out := outcome{Reason: report.Condition.Reason, RequeueAfter: report.RequeueAfter}
	for _, a := range plan.records {
		out.Records = append(out.Records, plan.dependants[a.at].Name)
	}
	for _, a := range plan.restarts {
		out.Restarts = append(out.Restarts, plan.dependants[a.at].Name)
	}
	for _, d := range report.Dependents {
		if out.States == nil {
			out.States = map[string]State{}
		}
		out.States[d.Name] = d.State
	}
	return out
}

func TestDecide(t *testing.T) {
	old, now := published("1", "1"), published("2", "1")
	window, err := ParseWindow("0 2 * * *", time.Hour, "UTC")
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(*Policy)) Policy {
		p := thePolicy
		change(&p)
		return p
	}
	for name, tc := range map[string]struct {
		policy    Policy
		objects   []Object
		workloads []*Workload
		want      outcome
	}{
		"no users": {want: outcome{Reason: configv1.ReasonNoDependents}},
		"a new workload is recorded": {
			workloads: []*Workload{user(Deployment, "x")},
			want:      outcome{Records: []string{"x"}, States: map[string]State{"x": UpToDate}, Reason: configv1.ReasonRolledOut},
		},
		"a workload that runs the published contents is not changed": {
			workloads: []*Workload{user(Deployment, "x", recorded(now)), user(Deployment, "y", rolled(now, start))},
			want:      outcome{States: map[string]State{"x": UpToDate, "y": UpToDate}, Reason: configv1.ReasonRolledOut},
		},
		"outdated workloads are restarted, in order": {
			workloads: []*Workload{user(StatefulSet, "s", recorded(old)), user(Deployment, "y", recorded(old)), user(Deployment, "x", recorded(old))},
			want: outcome{
				Restarts: []string{"x"}, States: map[string]State{"x": Restarting, "y": Pending, "s": Pending}, Reason: configv1.ReasonRollingOut,
			},
		},
		"the next restart waits for the previous one": {
			workloads: []*Workload{user(Deployment, "x", rolled(now, start), phase(InProgress)), user(Deployment, "y", recorded(old))},
			want:      outcome{States: map[string]State{"x": Restarting, "y": Pending}, Reason: configv1.ReasonRollingOut},
		},
		"two restarts if two are allowed": {
			policy:    with(func(p *Policy) { p.MaxConcurrent = 2 }),
			workloads: []*Workload{user(Deployment, "x", recorded(old)), user(Deployment, "y", recorded(old)), user(Deployment, "z", recorded(old))},
			want: outcome{
				Restarts: []string{"x", "y"}, States: map[string]State{"x": Restarting, "y": Restarting, "z": Pending}, Reason: configv1.ReasonRollingOut,
			},
		},
		"a rollout by another client takes no slot": {
			workloads: []*Workload{
				user(Deployment, "x", rolled(now, start.Add(-time.Hour)), phase(InProgress), changedAt(start.Add(-time.Minute))),
				user(Deployment, "y", recorded(old)),
			},
			want: outcome{Restarts: []string{"y"}, States: map[string]State{"x": UpToDate, "y": Restarting}, Reason: configv1.ReasonRollingOut},
		},
		"a failed restart stops the next": {
			workloads: []*Workload{user(Deployment, "x", rolled(now, start.Add(-time.Hour)), phase(Stuck)), user(Deployment, "y", recorded(old))},
			want:      outcome{States: map[string]State{"x": Failed, "y": Pending}, Reason: configv1.ReasonRolloutFailed},
		},
		"a failed rollout by another client does not": {
			workloads: []*Workload{
				user(Deployment, "x", rolled(now, start.Add(-time.Hour)), phase(Stuck), changedAt(start.Add(-time.Minute))),
				user(Deployment, "y", recorded(old)),
			},
			want: outcome{Restarts: []string{"y"}, States: map[string]State{"x": UpToDate, "y": Restarting}, Reason: configv1.ReasonRollingOut},
		},
		"a failed restart is retried first after a new change": {
			workloads: []*Workload{user(Deployment, "x", recorded(old)), user(Deployment, "y", rolled(old, start.Add(-time.Hour)), phase(Stuck))},
			want:      outcome{Restarts: []string{"y"}, States: map[string]State{"x": Pending, "y": Restarting}, Reason: configv1.ReasonRollingOut},
		},
		"a restart in progress with the previous contents is repeated first, in its own slot": {
			workloads: []*Workload{user(Deployment, "x", recorded(old)), user(Deployment, "y", rolled(old, start.Add(-time.Hour)), phase(InProgress))},
			want:      outcome{Restarts: []string{"y"}, States: map[string]State{"x": Pending, "y": Restarting}, Reason: configv1.ReasonRollingOut},
		},
		"pending within the minimum interval": {
			workloads: []*Workload{user(Deployment, "x", rolled(old, start.Add(-10*time.Second)))},
			want:      outcome{States: map[string]State{"x": Pending}, Reason: configv1.ReasonRollingOut, RequeueAfter: 20 * time.Second},
		},
		"pending within the debounce": {
			objects:   []Object{publishedAt(now, start.Add(-2*time.Second))},
			workloads: []*Workload{user(Deployment, "x", recorded(old))},
			want:      outcome{States: map[string]State{"x": Pending}, Reason: configv1.ReasonDebouncing, RequeueAfter: 3 * time.Second},
		},
		"a clock that was ahead holds nothing back": {
			objects:   []Object{publishedAt(now, start.Add(time.Hour))},
			workloads: []*Workload{user(Deployment, "x", recorded(old))},
			want:      outcome{Restarts: []string{"x"}, States: map[string]State{"x": Restarting}, Reason: configv1.ReasonRollingOut},
		},
		"pending outside the window": {
			policy:    with(func(p *Policy) { p.Window = window }),
			workloads: []*Workload{user(Deployment, "x", recorded(old))},
			want:      outcome{States: map[string]State{"x": Pending}, Reason: configv1.ReasonWaitingForWindow, RequeueAfter: 14 * time.Hour},
		},
		"strategy None writes nothing": {
			policy:    with(func(p *Policy) { p.Disabled = true }),
			workloads: []*Workload{user(Deployment, "x", recorded(old)), user(Deployment, "y")},
			want:      outcome{States: map[string]State{"x": Pending, "y": UpToDate}, Reason: configv1.ReasonRestartsDisabled},
		},
		"paused workloads and those without pods are annotated at once, and block no other": {
			workloads: []*Workload{
				user(Deployment, "a", recorded(old), func(w *Workload) { w.Progress.Manual = paused }),
				user(Deployment, "b", recorded(old), func(w *Workload) { w.Progress.Pods = 0 }),
				user(Deployment, "c", recorded(old)), user(Deployment, "d", recorded(old)),
			},
			want: outcome{
				Restarts: []string{"a", "b", "c"}, Reason: configv1.ReasonRollingOut,
				States: map[string]State{"a": Paused, "b": UpToDate, "c": Restarting, "d": Pending},
			},
		},
		"a workload that waits for a person is reported, and blocks no other": {
			workloads: []*Workload{
				user(StatefulSet, "x", rolled(now, start.Add(-time.Hour)), phase(Manual), func(w *Workload) { w.Progress.Manual = onDelete }),
			},
			want: outcome{States: map[string]State{"x": Paused}, Reason: configv1.ReasonManualRestart},
		},
		"a workload whose pods could not start is not changed": {
			workloads: []*Workload{user(Deployment, "x", references(Reference{Kind: ConfigMap, Name: "shop-config", Key: "gone"}))},
			want:      outcome{States: map[string]State{"x": Pending}, Reason: configv1.ReasonKeyMissing},
		},
		"a workload with optional references is restarted": {
			workloads: []*Workload{user(Deployment, "x", references(Reference{Kind: ConfigMap, Name: "shop-config", Key: "gone", Optional: true}))},
			want:      outcome{Records: []string{"x"}, States: map[string]State{"x": UpToDate}, Reason: configv1.ReasonRolledOut},
		},
		"a workload that was created around a publication is restarted": {
			objects:   []Object{publishedAt(now, start.Add(-8*time.Second))},
			workloads: []*Workload{user(Deployment, "x", changedAt(start.Add(-9*time.Second)))},
			want:      outcome{Restarts: []string{"x"}, States: map[string]State{"x": Restarting}, Reason: configv1.ReasonRollingOut},
		},
		"not around the first publication, unless the reference is optional": {
			objects: []Object{func() Object {
				o := now
				o.PublishedAt = PublishedAt("", false, true, start.Add(-8*time.Second))
				return o
			}()},
			workloads: []*Workload{
				user(Deployment, "x", changedAt(start.Add(-9*time.Second))),
				user(Deployment, "y", changedAt(start.Add(-9*time.Second)), references(Reference{Kind: ConfigMap, Name: "shop-config", Optional: true})),
			},
			want: outcome{
				Records: []string{"x"}, Restarts: []string{"y"}, States: map[string]State{"x": UpToDate, "y": Restarting}, Reason: configv1.ReasonRollingOut,
			},
		},
		"a workload that is being deleted is no dependant": {
			workloads: []*Workload{user(Deployment, "x", recorded(old), func(w *Workload) { w.deleting = true })},
			want:      outcome{Reason: configv1.ReasonNoDependents},
		},
		"a StatefulSet that misses its deadline has failed": {
			workloads: []*Workload{
				user(StatefulSet, "x", rolled(now, start.Add(-11*time.Minute)), phase(InProgress)), user(StatefulSet, "y", recorded(old)),
			},
			want: outcome{States: map[string]State{"x": Failed, "y": Pending}, Reason: configv1.ReasonRolloutFailed},
		},
		"but not if it still makes progress": {
			workloads: []*Workload{user(StatefulSet, "x", rolled(now, start.Add(-11*time.Minute)), phase(InProgress), func(w *Workload) {
				w.Progress.since = start.Add(-time.Minute)
			})},
			want: outcome{States: map[string]State{"x": Restarting}, Reason: configv1.ReasonRollingOut, RequeueAfter: 9 * time.Minute},
		},
		"a DaemonSet's complete rollout is recorded, because its status resets": {
			workloads: []*Workload{user(DaemonSet, "x", rolled(now, start.Add(-time.Minute)), func(w *Workload) { w.Progress.resetsOnPodFailure = true })},
			want:      outcome{Records: []string{"x"}, States: map[string]State{"x": UpToDate}, Reason: configv1.ReasonRolledOut},
		},
		"and a pod that fails later is no rollout": {
			workloads: []*Workload{user(DaemonSet, "x", rolled(now, start.Add(-time.Hour)), phase(InProgress), func(w *Workload) {
				w.Progress.resetsOnPodFailure = true
				w.records[theKey] = restartRecord(hashFor(w, now), start.Add(-time.Hour)).withDone().String()
			})},
			want: outcome{States: map[string]State{"x": UpToDate}, Reason: configv1.ReasonRolledOut},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.policy.MaxConcurrent == 0 {
				tc.policy = thePolicy
			}
			if tc.objects == nil {
				tc.objects = []Object{now}
			}
			if diff := cmp.Diff(tc.want, decided(start, tc.policy, tc.objects, tc.workloads...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
