package rollout

import (
	"strings"
	"testing"
	"time"
)

// settings is a ConfigMap that Fettle does not publish, and its owner.
func settings(version string, data map[string][]byte) (Owner, Object) {
	return Owner{Prefix: ConfigMapPrefix, Namespace: "web", Name: "settings"}, Object{
		Kind: ConfigMap, Target: "settings", Name: "settings", Exists: data != nil, Version: version, Data: data,
	}
}

func planFor(owner Owner, o Object, workloads ...*Workload) plan {
	p := &evaluation{now: start, owner: owner, policy: thePolicy, published: []Object{o}}
	return p.decide(workloads, func(*Workload) lastWrite { return lastWrite{} })
}

// applyPlan applies the plan's records and restarts to the workloads.
func applyPlan(owner Owner, out plan) {
	for _, a := range out.records {
		out.dependants[a.at].records[owner.annotation()] = a.record.String()
	}
	for _, a := range out.restarts {
		w := out.dependants[a.at].Workload
		w.records[owner.annotation()], w.templates[owner.annotation()] = a.record.String(), a.record.Hash
	}
}

func TestAllRunning(t *testing.T) {
	owner, one := settings("u/1", map[string][]byte{"a": []byte("1")})
	w := user(Deployment, "x", references(Reference{Kind: ConfigMap, Name: "settings", Key: "a"}))
	if known, noted := owner.running([]*Workload{w}, one); known || noted {
		t.Error("without a record, but running")
	}
	applyPlan(owner, planFor(owner, one, w))
	if known, noted := owner.running([]*Workload{w}, one); !known || !noted {
		t.Error("recorded, but not running")
	}
	_, two := settings("u/2", one.Data)
	if known, noted := owner.running([]*Workload{w}, two); known || !noted {
		t.Error("another version counts as the same contents")
	}
	w.References[0].Key = "b"
	if known, _ := owner.running([]*Workload{w}, one); known {
		t.Error("the contents of a key that was not used count as known")
	}
	w.deleting = true
	if known, _ := owner.running([]*Workload{w}, one); !known {
		t.Error("a workload that is being deleted counts")
	}
}

// An optional object that is created, changed or deleted restarts its users. A re-created object restarts nothing.
func TestPlainObject_restartsForItsContents(t *testing.T) {
	owner, none := settings("", nil)
	w := user(Deployment, "x", references())
	step := func(o Object, restarts int, what string) {
		t.Helper()
		out := planFor(owner, o, w)
		if len(out.restarts) != restarts {
			t.Errorf("%s: %d restarts, not %d", what, len(out.restarts), restarts)
		}
		applyPlan(owner, out)
		w.records[owner.annotation()] = strings.ReplaceAll(w.records[owner.annotation()], start.Format(time.RFC3339), start.Add(-time.Hour).Format(time.RFC3339))
	}
	step(none, 0, "found without it")
	_, o := settings("u/1", map[string][]byte{"a": []byte("1")})
	step(o, 1, "created")
	_, o = settings("v/9", o.Data)
	step(o, 0, "re-created")
	_, o = settings("v/10", map[string][]byte{"a": []byte("1"), "b": nil})
	step(o, 1, "another key, where all are used")
	step(none, 1, "deleted")
}

// Workloads that an earlier release restarted immediately have no record of the engine. They were changed just after the contents.
func TestUpgrade_restartsNothing(t *testing.T) {
	changed := published("1", "1")
	changed.PublishedAt = start.Add(-time.Hour).Format(time.RFC3339)
	w := user(Deployment, "x", changedAt(start.Add(-time.Hour+time.Second)), func(w *Workload) { w.templates[FormerHashAnnotation] = "h" })
	if got := decided(start, thePolicy, []Object{changed}, w); len(got.Restarts) != 0 || len(got.Records) != 1 {
		t.Errorf("%d restarts and %d records, not 0 and 1", len(got.Restarts), len(got.Records))
	}
	delete(w.templates, FormerHashAnnotation)
	if got := decided(start, thePolicy, []Object{changed}, w); len(got.Restarts) != 1 {
		t.Error("a workload that may have started with other contents is not restarted")
	}
}

func TestAnnotation_ofALongName(t *testing.T) {
	a := Owner{Prefix: SecretPrefix, Name: strings.Repeat("a", 200)}.annotation()
	b := Owner{Prefix: SecretPrefix, Name: strings.Repeat("a", 201)}.annotation()
	if len(a) != len(SecretPrefix)+1+longestName || a == b {
		t.Errorf("annotations %s and %s", a, b)
	}
}

// The contents of a workload's first pods are known although the operator died before it recorded them.
func TestCreatedWith_namesContentsOfFirstPods(t *testing.T) {
	owner, o := settings("u/2", map[string][]byte{"a": []byte("2")})
	o.PublishedAt = start.Add(-time.Second).Format(time.RFC3339)
	for _, tc := range []struct {
		with     string
		age      time.Duration
		restarts int
	}{
		{"Secret/settings=u/9,ConfigMap/settings=u/1", time.Minute, 1},
		{"ConfigMap/settings=u/1", 24 * time.Hour, 0},
		{"ConfigMap/settings=u/2", time.Second, 0},
		{"ConfigMap/settings2=u/1", time.Minute, 0},
	} {
		w := user(Deployment, "x", references(), changedAt(start.Add(-tc.age)))
		w.created, w.records[CreatedWithAnnotation] = start.Add(-tc.age), tc.with
		if out := planFor(owner, o, w); out.dependants[0].need != map[int]need{0: needRecord, 1: needRestart}[tc.restarts] {
			t.Errorf("created %v ago with %s: need %v", tc.age, tc.with, out.dependants[0].need)
		}
		if tc.restarts == 1 { // pods of a template that was changed since run the current contents
			w.records[owner.annotation()] = baselineRecord(strings.Repeat("0", hashDigits), "", time.Time{}, start).String()
			o.PublishedAt = ""
			if out := planFor(owner, o, w); out.dependants[0].need != needRecord {
				t.Errorf("CreatedWithAnnotation counts for other keys: need %v", out.dependants[0].need)
			}
		}
	}
}
