package postgresql

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func unscheduled(message string) corev1.PodCondition {
	return corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message}
}

func TestStranded(t *testing.T) {
	waits := func(message string) *corev1.Pod {
		pod := podOf("pg-0", 'N')
		pod.Status.Conditions = append(pod.Status.Conditions, unscheduled(message))
		return pod
	}
	scheduled := waits("1 node(s) were unschedulable")
	scheduled.Spec.NodeName = "n1"
	going := waits("1 node(s) were unschedulable")
	going.DeletionTimestamp = new(metav1.Now())
	bound, unbound := claim("1Gi", "1Gi"), claim("1Gi", "")
	for name, c := range map[string]struct {
		in   instance
		want bool
	}{
		"its node is cordoned":            {instance{pod: waits("0/1 nodes are available: 1 node(s) were unschedulable."), claim: bound}, true},
		"its volume is elsewhere":         {instance{pod: waits("2 node(s) didn't match PersistentVolume's node affinity."), claim: bound}, true},
		"as older schedulers say it":      {instance{pod: waits("2 node(s) had volume node affinity conflict."), claim: bound}, true},
		"all nodes have a taint":          {instance{pod: waits("3 node(s) had untolerated taint(s)."), claim: bound}, true},
		"as older schedulers say that":    {instance{pod: waits("3 node(s) had untolerated taint {karpenter.sh/disrupted: }."), claim: bound}, true},
		"one has a taint, others no room": {instance{pod: waits("1 node(s) had untolerated taint(s), 2 Insufficient cpu."), claim: bound}, false},
		"no node has room":                {instance{pod: waits("3 Insufficient memory."), claim: bound}, false},
		"it never had a volume":           {instance{pod: waits("1 node(s) were unschedulable."), claim: unbound}, false},
		"it never had a claim":            {instance{pod: waits("1 node(s) were unschedulable.")}, false},
		"it has a node by now":            {instance{pod: scheduled, claim: bound}, false},
		"it is being deleted":             {instance{pod: going, claim: bound}, false},
		"its pod was not looked at":       {instance{pod: podOf("pg-0", 'N'), claim: bound}, false},
		"its pod is yet to be made anew":  {instance{claim: bound}, false},
	} {
		if got := c.in.unschedulable(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestUncounted(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		name  string
		words string
		ago   time.Duration
		want  int
	}{
		{"all serve", "P R R", 0, 0},
		{"one waits for a node, and nobody is to leave", "P R Nc", time.Hour, 0},
		{"one waits for a node, and a replica is to leave its own", "P Rl Nc", 0, 1},
		{"the primary is to leave, and hands over first", "Pl R Nc", 0, 0},
		{"it could not hand over", "Pl R Nc", 3 * time.Minute, 1},
		{"the primary is to leave, and all others are", "Pl Rl Nc", 0, 1},
		{"the primary is to leave, and the other one is not ready", "Pl N Nc", 0, 1},
		{"the primary is to leave, and the other one is about to be ready", "Pl Nn Nc", 0, 0},
		{"the other one did not get ready", "Pl Nn Nc", 3 * time.Minute, 1},
		{"the other one is about to be ready, and is to leave as well", "Pl Nnl Nc", 0, 1},
		{"the other one is stopped by people", "Pl NnF Nc", 0, 1},
		{"the other one is on its way, and the primary stays", "P Rl Nn Nc", 0, 1},
		{"only one that is not ready is to leave", "P Nnl Nc", 0, 0},
		{"the primary is to leave, the other two have", "Pl Nc Nc", 0, 2},
		{"nobody takes writes yet", "R Rl Nc", 0, 0},
		{"nobody is primary", "R Rl Nc", 3 * time.Minute, 1},
		{"all have left", "Nc Nc Nc", time.Hour, 0},
	} {
		cluster := picture(3, c.words)
		for i := range cluster.instances {
			conditions := cluster.instances[i].pod.Status.Conditions
			for j := range conditions {
				conditions[j].LastTransitionTime = metav1.NewTime(now.Add(-c.ago))
			}
		}
		if got := extraDisruptions(cluster, now); got != c.want {
			t.Errorf("%s: %s: %d, want %d", c.name, c.words, got, c.want)
		}
	}
}

// drainAll evicts the instances whose bit is set, in order, as the budget allows it, and carries out what is decided
// meanwhile. It returns what the instances are like at the end, and how often a primary was evicted that was not the first to
// go although one that could stay was ready.
func drainAll(size, primary, drained int) (end string, bad int) {
	words := slices.Repeat([]string{"R"}, size)
	for i := range words {
		words[i] += strings.Repeat("l", drained>>i&1)
	}
	lead := func(i int) {
		if i >= 0 {
			words[i] = "P" + words[i][1:]
		}
	}
	lead(primary)
	for range 10 * size {
		// All that could not be scheduled were evicted just now.
		c, now := picture(size, strings.Join(words, " ")), time.Time{}
		if _, s := next(wanting(int32(size)), c); s.Code == RequestSwitchover {
			primary := slices.IndexFunc(words, func(w string) bool { return w[0] == 'P' })
			words[primary] = "R" + words[primary][1:]
			lead(s.target.ordinal)
			continue
		}
		away, _ := c.unschedulable()
		victim := slices.IndexFunc(words, func(w string) bool { return strings.HasSuffix(w, "l") })
		if victim < 0 || away >= 1+extraDisruptions(c, now) {
			continue
		}
		wasPrimary, stays := words[victim][0] == 'P', slices.Index(words, "R")
		words[victim] = "Nc"
		switch {
		case !wasPrimary:
		case stays < 0:
			lead(slices.Index(words, "Rl"))
		default:
			lead(stays)
			bad += min(away, 1)
		}
	}
	return strings.Join(words, " "), bad
}

// TestDrainsEnd holds that a drain of nodes which have the volumes of any of the instances ends, while all others go on
// serving, and that a primary is evicted only as the first, or where nobody could take over elsewhere.
func TestDrainsEnd(t *testing.T) {
	for size := 2; size <= 5; size++ {
		for primary := range size {
			for drained := range 1 << size {
				end, bad := drainAll(size, primary, drained)
				for i, word := range strings.Fields(end) {
					if evicted := drained>>i&1 == 1; evicted != (word == "Nc") || bad > 0 {
						t.Fatalf("%d instances, primary %d, drained %b: %s, %d primaries evicted", size, primary, drained, end, bad)
					}
				}
			}
		}
	}
}
