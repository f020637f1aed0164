package postgresql

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/peer"
)

// judged is what the conditions about volumes, the primary and the instances say of one instance, in this order.
func judged(pg *databasev1alpha1.PostgreSQL, in instance, at time.Time) []string {
	seen := &observed{at: at, cluster: *picture(1, "")}
	seen.cluster.instances = []instance{in}
	var out []string
	for _, v := range []verdict{volumesReady(pg, &seen.cluster, growth{}, nil, at), primaryReady(pg, seen), instancesReady(pg, seen)} {
		out = append(out, string(v.status)+" "+v.reason+": "+v.message)
	}
	return out
}

// TestTroubleAtTheStart holds that a first instance which does not come says what keeps it, and not what it only waits for.
func TestTroubleAtTheStart(t *testing.T) {
	now := time.Now()
	const (
		starting = "False Creating: the first instance is being started"
		itself   = "False Creating: pg-0 is being started"
		volumes  = "True VolumesReady: all volumes are bound and as large as they should be"
		noPod    = "False InstanceNotReady: pg-0 has no pod yet: if it gets none, kubectl describe statefulset pg says why"
		initdb   = "False InstanceNotReady: pg-0 does not serve: initdb: invalid locale name"
		noCPU    = "False Unschedulable: pod pg-0 can't be scheduled: 3 Insufficient cpu. See spec.resources, spec.nodeSelector, spec.affinity and spec.tolerations."
		noClass  = "False Unschedulable: pod pg-0 can't be scheduled: pod has unbound immediate PersistentVolumeClaims"
		noMemory = "False OOMKilled: container postgres of pod pg-0 needs more memory than its limit: raise spec.resources.limits.memory"
	)
	pending := func() *corev1.PersistentVolumeClaim {
		c := claim("1Gi", "")
		c.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour))
		return c
	}
	unschedulable := func(message string) *corev1.Pod {
		pod := podOf("pg-0", 'N')
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message,
		})
		return pod
	}
	killed := podOf("pg-0", 'N')
	killed.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: mainContainer, RestartCount: 2, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}},
	}}
	told := &peer.Status{Message: "initdb: invalid locale name"}
	for _, c := range []struct {
		name string
		age  time.Duration
		in   instance
		want []string
	}{
		{"just begun", 10 * time.Second, instance{pod: podOf("pg-0", 'N'), status: told}, []string{volumes, starting, itself}},
		{"initdb fails", time.Minute, instance{pod: podOf("pg-0", 'N'), status: told}, []string{volumes, initdb, initdb}},
		{"no pod", time.Minute, instance{claim: pending()}, []string{"Unknown Creating: claim data gets its volume when pod pg-0 is scheduled", noPod, noPod}},
		{"no room", time.Minute, instance{claim: pending(), pod: unschedulable("3 Insufficient cpu.")},
			[]string{"Unknown Creating: claim data gets its volume when pod pg-0 is scheduled", noCPU, noCPU}},
		{"no class", time.Minute, instance{claim: pending(), pod: unschedulable("pod has unbound immediate PersistentVolumeClaims")},
			[]string{"False VolumeUnbound: claim data has no volume yet: see kubectl describe pvc data; check spec.storageClassName", noClass, noClass}},
		{"no memory", time.Minute, instance{pod: killed}, []string{volumes, noMemory, noMemory}},
	} {
		t.Run(c.name, func(t *testing.T) {
			pg := wanting(1)
			pg.CreationTimestamp = metav1.NewTime(now.Add(-c.age))
			c.in.name = "pg-0"
			if diff := cmp.Diff(c.want, judged(pg, c.in, now)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestFencedIsSaid holds that who is stopped by people is not told to wait for an election, or for a switchover that can't be.
func TestFencedIsSaid(t *testing.T) {
	pg := wanting(2, asks("pg-1"))
	pg.Status.Timeline, pg.Status.Phase = 3, databasev1alpha1.PhaseRunning
	if v := primaryReady(pg, &observed{cluster: *picture(2, "NF NF")}); v.reason != databasev1alpha1.ReasonInstanceFenced {
		t.Errorf("all are fenced: %s: %s", v.reason, v.message)
	}
	if v := primaryReady(pg, &observed{cluster: *picture(2, "N NF")}); v.reason != databasev1alpha1.ReasonNoPrimary {
		t.Errorf("one is fenced: %s: %s", v.reason, v.message)
	}
	for words, want := range map[string]bool{"P NF": true, "P R": false} {
		if _, s := next(pg, picture(2, words)); strings.Contains(s.message, databasev1alpha1.AnnotationFenced) != want {
			t.Errorf("%s: %s", words, s.message)
		}
	}
}
