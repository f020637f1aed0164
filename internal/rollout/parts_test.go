package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-dev/fettle/internal/digest"
)

func TestPublishedAt(t *testing.T) {
	written := PublishedAt("", false, true, start)
	for name, tc := range map[string]struct {
		stamp string
		at    time.Time
		first bool
	}{
		"the first contents":                  {written, start, true},
		"unchanged contents":                  {PublishedAt(written, true, false, start.Add(time.Hour)), start, true},
		"changed contents":                    {PublishedAt(written, true, true, start.Add(time.Hour)), start.Add(time.Hour), false},
		"of an object without the annotation": {PublishedAt("", true, false, start), start, false},
		"an invalid annotation":               {"yesterday", time.Time{}, false},
	} {
		at, first := parsePublishedAt(tc.stamp)
		if !at.Equal(tc.at) || first != tc.first {
			t.Errorf("%s: %s, first %v", name, at, first)
		}
	}
}

// It must be impossible to find a Secret's contents by hashing guesses, or to see that two Secrets are equal.
func TestHashOfSecret_isKeyedPerOwner(t *testing.T) {
	secret := Object{Kind: Secret, Target: "s", Name: "s", Exists: true, Data: map[string][]byte{"k": []byte("hunter2")}}
	w := user(Deployment, "x", references(Reference{Kind: Secret, Name: "s", Key: "k"}))
	of := func(key digest.Key, owner Owner) string { return hashOf(key, owner, owner.usesOf(w, []Object{secret})) }
	one, other := of(testKey, theOwner), theOwner
	other.Namespace = "db"
	if two := of(testKey, other); sameContent(one, two) {
		t.Error("two owners with the same contents have the same hash")
	}
	if again := of(testKey, theOwner); again != one {
		t.Errorf("the same contents have the hashes %s and %s", one, again)
	}
	lost := of(digest.Key("another key"), theOwner)
	if sameUse(one, lost) || !rekeyed(one, lost) || sameContent(one, lost) || one[useDigits:hashDigits] == lost[useDigits:hashDigits] {
		t.Errorf("hashes with two keys are comparable: %s and %s", one, lost)
	}
	if rekeyed(one, of(testKey, other)) || rekeyed(one, "") {
		t.Error("hashes with one key, or invalid hashes, count as hashes with two keys")
	}
}

// An upgrade from a release without keys and the loss of the key restart nothing. The next change of contents restarts.
func TestDigestOfAnotherKey_restartsNothing(t *testing.T) {
	secret := func(value string) Object {
		return Object{Kind: Secret, Target: "s", Name: "s", Exists: true, Data: map[string][]byte{"k": []byte(value)}, PublishedAt: PublishedAt("x", true, true, start.Add(-time.Hour))}
	}
	w := user(Deployment, "x", references(Reference{Kind: Secret, Name: "s", Key: "k"}), changedAt(start.Add(-time.Hour)))
	use := hashFor(w, secret("1"))[:useDigits]
	for name, hash := range map[string]string{
		"of a release without keys": use + "0123456789abcdef01234567", "with a lost key": use + "0123456789abcdef0123456789abcdef",
	} {
		w.records[theKey], w.templates[theKey] = restartRecord(hash, start.Add(-2*time.Hour)).String(), hash
		got := decided(start, thePolicy, []Object{secret("1")}, w)
		if len(got.Restarts) != 0 || len(got.Records) != 1 {
			t.Errorf("%s: %d restarts and %d records, not 0 and 1", name, len(got.Restarts), len(got.Records))
		}
	}
	w.records[theKey] = baselineRecord(hashFor(w, secret("1")), w.templates[theKey], time.Time{}, start.Add(-time.Hour)).String()
	if got := decided(start, thePolicy, []Object{secret("2")}, w); len(got.Restarts) != 1 {
		t.Error("a change after that restarts nothing")
	}
}

func TestHash_differs(t *testing.T) {
	base := published("1", "1")
	all := references(Reference{Kind: ConfigMap, Name: "shop-config"})
	seen := map[string]string{}
	for name, o := range map[string]Object{
		"base": base, "another value": published("2", "1"), "swapped values": published("1", "2"),
		"one key less": func() Object { o := published("1", "1"); delete(o.Data, "b"); return o }(),
		"no keys":      func() Object { o := published("1", "1"); o.Data = nil; return o }(),
		"no object":    {Kind: ConfigMap, Target: "shop-config", Name: "shop-config"},
		"concatenated": func() Object {
			o := published("1", "1")
			o.Data = map[string][]byte{"a": []byte("1" + "1:b" + "1:1")}
			return o
		}(),
	} {
		hash := hashFor(user(Deployment, "x", all), o)
		if before, ok := seen[hash]; ok {
			t.Errorf("%s has the hash of %s", name, before)
		}
		seen[hash] = name
	}
}

func TestProgress(t *testing.T) {
	deployment := func(observed int64, replicas, updated, available int32, reason string) *k8sappsv1.Deployment {
		return &k8sappsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Generation: 2}, Spec: k8sappsv1.DeploymentSpec{Replicas: new(int32(2))},
			Status: k8sappsv1.DeploymentStatus{
				ObservedGeneration: observed, Replicas: replicas, UpdatedReplicas: updated, AvailableReplicas: available,
				Conditions: []k8sappsv1.DeploymentCondition{{Type: k8sappsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: reason, Message: "m"}},
			},
		}
	}
	statefulSet := func(observed int64, updated, ready int32, revision, partition string) *k8sappsv1.StatefulSet {
		s := &k8sappsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Generation: 2}, Spec: k8sappsv1.StatefulSetSpec{Replicas: new(int32(2))},
			Status: k8sappsv1.StatefulSetStatus{
				ObservedGeneration: observed, UpdatedReplicas: updated, ReadyReplicas: ready, CurrentRevision: "1", UpdateRevision: revision,
			},
		}
		if partition == "OnDelete" {
			s.Spec.UpdateStrategy.Type = k8sappsv1.OnDeleteStatefulSetStrategyType
		} else if partition != "" {
			s.Spec.UpdateStrategy.RollingUpdate = &k8sappsv1.RollingUpdateStatefulSetStrategy{Partition: new(int32(partition[0] - '0'))}
		}
		return s
	}
	daemonSet := func(observed int64, updated, available int32, strategy k8sappsv1.DaemonSetUpdateStrategyType) *k8sappsv1.DaemonSet {
		d := &k8sappsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
		d.Spec.UpdateStrategy.Type = strategy
		d.Status = k8sappsv1.DaemonSetStatus{
			ObservedGeneration: observed, DesiredNumberScheduled: 2, UpdatedNumberScheduled: updated, NumberAvailable: available,
		}
		return d
	}
	pausedDeployment := deployment(2, 2, 0, 2, "DeploymentPaused")
	pausedDeployment.Spec.Paused = true
	got := map[string]Phase{}
	for name, p := range map[string]Progress{
		"Deployment not observed":          ofDeployment(deployment(1, 2, 2, 2, "NewReplicaSetAvailable")),
		"Deployment half":                  ofDeployment(deployment(2, 3, 1, 2, "ReplicaSetUpdated")),
		"Deployment done":                  ofDeployment(deployment(2, 2, 2, 2, "NewReplicaSetAvailable")),
		"Deployment done, a pod deleted":   ofDeployment(deployment(2, 2, 2, 1, "NewReplicaSetAvailable")),
		"Deployment without deadline":      ofDeployment(deployment(2, 2, 2, 2, "")),
		"Deployment not available":         ofDeployment(deployment(2, 2, 2, 1, "ReplicaSetUpdated")),
		"Deployment stuck":                 ofDeployment(deployment(2, 3, 1, 2, "ProgressDeadlineExceeded")),
		"Deployment paused":                ofDeployment(pausedDeployment),
		"StatefulSet not observed":         ofStatefulSet(statefulSet(1, 2, 2, "1", "")),
		"StatefulSet half":                 ofStatefulSet(statefulSet(2, 1, 2, "2", "")),
		"StatefulSet done":                 ofStatefulSet(statefulSet(2, 2, 2, "1", "")),
		"StatefulSet done, a pod fails":    ofStatefulSet(statefulSet(2, 2, 1, "1", "")),
		"StatefulSet OnDelete":             ofStatefulSet(statefulSet(2, 1, 2, "2", "OnDelete")),
		"StatefulSet OnDelete, deleted":    ofStatefulSet(statefulSet(2, 2, 2, "2", "OnDelete")),
		"StatefulSet at its partition":     ofStatefulSet(statefulSet(2, 1, 2, "2", "1")),
		"StatefulSet before its partition": ofStatefulSet(statefulSet(2, 0, 2, "2", "1")),
		"StatefulSet fully partitioned":    ofStatefulSet(statefulSet(2, 0, 2, "2", "2")),
		"DaemonSet not observed":           ofDaemonSet(daemonSet(1, 2, 2, "")),
		"DaemonSet half":                   ofDaemonSet(daemonSet(2, 1, 2, "")),
		"DaemonSet done":                   ofDaemonSet(daemonSet(2, 2, 2, "")),
		"DaemonSet not available":          ofDaemonSet(daemonSet(2, 2, 1, "")),
		"DaemonSet OnDelete":               ofDaemonSet(daemonSet(2, 1, 2, k8sappsv1.OnDeleteDaemonSetStrategyType)),
	} {
		got[name] = p.Phase
	}
	want := map[string]Phase{}
	for phase, names := range map[Phase]string{
		Complete: "Deployment done;Deployment done, a pod deleted;Deployment without deadline;StatefulSet done;StatefulSet done, a pod fails;" +
			"StatefulSet OnDelete, deleted;StatefulSet at its partition;DaemonSet done",
		InProgress: "Deployment not observed;Deployment half;Deployment not available;StatefulSet not observed;StatefulSet half;StatefulSet before its partition;" +
			"DaemonSet not observed;DaemonSet half;DaemonSet not available",
		Manual: "Deployment paused;StatefulSet OnDelete;StatefulSet fully partitioned;DaemonSet OnDelete",
		Stuck:  "Deployment stuck",
	} {
		for name := range strings.SplitSeq(names, ";") {
			want[name] = phase
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBounded(t *testing.T) {
	var r Report
	for i := range 250 {
		r.Dependents = append(r.Dependents, Dependent{Name: fmt.Sprint(i), State: UpToDate})
	}
	r.Dependents[240].State = Failed
	listed, more := r.Bounded()
	if len(listed) != maxDependents || more != 150 || listed[0].State != Failed || listed[1].Name != "0" {
		t.Errorf("%d listed, %d more, first %+v", len(listed), more, listed[:2])
	}
}

// An AppConfig may have the name of another annotation with its prefix.
func TestAnnotation_ofOwnerCalledUses(t *testing.T) {
	owner := Owner{Prefix: ConfigPrefix, Name: "uses"}
	if owner.annotation() == UsesAnnotation {
		t.Fatal("the record of an AppConfig overwrites UsesAnnotation")
	}
	w := user(Deployment, "x", func(w *Workload) { w.records[owner.annotation()], w.records[UsesAnnotation] = "n", "other" })
	if diff := cmp.Diff([]string{"uses"}, w.Owners(ConfigPrefix)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUsesAllKeysByAnnotation(t *testing.T) {
	w := user(Deployment, "x", references(), func(w *Workload) { w.uses = usesIn(" shop, VoteConfig/vote,") })
	if diff := cmp.Diff([][]string{{"shop"}, {"vote"}}, [][]string{w.Owners(ConfigPrefix), w.Owners(VotingPrefix)}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	recorded(published("1", "1"))(w)
	if got := decided(start, thePolicy, []Object{published("1", "2")}, w); len(got.Restarts) != 1 {
		t.Error("a change of any key must restart it")
	}
}
