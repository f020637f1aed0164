package postgresql

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

// judged is what the conditions about volumes, the primary and the instances say of one instance, in this order.
func judged(pg *databasev1alpha1.PostgreSQL, in instance, at time.Time) []string {
	seen := &observed{at: at, cluster: *picture(1, "")}
	seen.cluster.instances = []instance{in}
	var out []string
	for _, v := range []conditions.State{volumesReady(pg, &seen.cluster, growth{}, nil, at), primaryReady(pg, seen), instancesReady(pg, seen)} {
		out = append(out, string(v.Status)+" "+v.Reason+": "+v.Message)
	}
	return out
}

// TestTroubleAtTheStart holds that a first instance which does not come says what keeps it, and not what it only waits for.
func TestTroubleAtTheStart(t *testing.T) {
	now := time.Now()
	const (
		starting = "False Creating: the first instance is being started"
		itself   = "False Creating: pg-0 is being started"
		volumes  = "True VolumesReady: all volumes are bound and have the requested size"
		noPod    = "False InstanceNotReady: pg-0 has no pod yet: if it gets none, kubectl describe statefulset pg says why"
		initdb   = "False InstanceNotReady: pg-0 is not ready: initdb: invalid locale name"
		noCPU    = "False Unschedulable: pod pg-0 cannot be scheduled: 3 Insufficient cpu. See spec.resources, spec.nodeSelector, spec.affinity and spec.tolerations."
		noClass  = "False Unschedulable: pod pg-0 cannot be scheduled: pod has unbound immediate PersistentVolumeClaims"
		noMemory = "False OOMKilled: container postgres of pod pg-0 needs more memory than its limit: raise spec.resources.limits.memory"
	)
	pending := func() *corev1.PersistentVolumeClaim {
		c := claim("1Gi", "")
		c.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour))
		return c
	}
	unschedulable := func(message string) *corev1.Pod {
		pod := podOf("pg-0", 'N')
		pod.Status.Conditions = append(pod.Status.Conditions, unscheduled(message))
		return pod
	}
	killed := podOf("pg-0", 'N')
	killed.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: mainContainer, RestartCount: 2, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}},
	}}
	told := &agentapi.Status{Message: "initdb: invalid locale name"}
	for _, c := range []struct {
		name string
		age  time.Duration
		in   instance
		want []string
	}{
		{"just begun", 10 * time.Second, instance{pod: podOf("pg-0", 'N'), status: told}, []string{volumes, starting, itself}},
		{"initdb fails", time.Minute, instance{pod: podOf("pg-0", 'N'), status: told}, []string{volumes, initdb, initdb}},
		{"no pod", time.Minute, instance{claim: pending()}, []string{"Unknown Creating: PVC data gets its volume when pod pg-0 is scheduled", noPod, noPod}},
		{"no room", time.Minute, instance{claim: pending(), pod: unschedulable("3 Insufficient cpu.")},
			[]string{"Unknown Creating: PVC data gets its volume when pod pg-0 is scheduled", noCPU, noCPU}},
		{"no class", time.Minute, instance{claim: pending(), pod: unschedulable("pod has unbound immediate PersistentVolumeClaims")},
			[]string{"False VolumeNotBound: PVC data has no volume yet: see kubectl describe pvc data; check spec.storageClassName", noClass, noClass}},
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

// TestClaimOfAnotherClass holds that a claim which an earlier PostgreSQL left behind is told of with the class that it asks for.
func TestClaimOfAnotherClass(t *testing.T) {
	for class, want := range map[string]string{"fast": `StorageClass "fast"`, "": "check spec.storageClassName"} {
		c := claim("1Gi", "")
		c.Spec.StorageClassName = &class
		v := claimState(&instance{name: "pg-0", claim: c, pod: podOf("pg-0", 'N')}, growth{}, c.CreationTimestamp.Add(time.Hour))
		if v == nil || v.Reason != databasev1alpha1.ReasonVolumeNotBound || !strings.Contains(v.Message, want) {
			t.Errorf("class %q: %v, want %s", class, v, want)
		}
	}
}

// TestHibernationIsSaid holds that while instances stop as they should nobody is told to wait for an election.
func TestHibernationIsSaid(t *testing.T) {
	pg := wanting(2, asleepPlease)
	pg.Status.Timeline, pg.Status.Phase = 3, databasev1alpha1.PhaseRunning
	if v := primaryReady(pg, &observed{cluster: *picture(2, "Ns R")}); v.Reason != databasev1alpha1.ReasonScaling {
		t.Errorf("%s: %s", v.Reason, v.Message)
	}
}

// TestUnheard holds that status quotes no address of an agent, and tells of what ends by itself.
func TestUnheard(t *testing.T) {
	authority := &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}
	for want, err := range map[string]error{
		"connection refused": &url.Error{Op: "Put", URL: "https://pg-0/v1/desired", Err: errors.New("connection refused")},
		"certificate signed by an unexpected CA; the kubelet updates it within two minutes": fmt.Errorf(
			"tell: %w", &url.Error{Op: "Put", URL: "https://pg-0/v1/desired", Err: authority}),
		"the agent says no": errors.New("the agent says no"),
	} {
		if got := unreachableCause(err); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestFencedIsSaid holds that who is stopped by people is not told to wait for an election, or for a switchover that can't be.
func TestFencedIsSaid(t *testing.T) {
	pg := wanting(2, asks("pg-1"))
	pg.Status.Timeline, pg.Status.Phase = 3, databasev1alpha1.PhaseRunning
	if v := primaryReady(pg, &observed{cluster: *picture(2, "NF NF")}); v.Reason != databasev1alpha1.ReasonInstanceFenced {
		t.Errorf("all are fenced: %s: %s", v.Reason, v.Message)
	}
	if v := primaryReady(pg, &observed{cluster: *picture(2, "N NF")}); v.Reason != databasev1alpha1.ReasonNoPrimary {
		t.Errorf("one is fenced: %s: %s", v.Reason, v.Message)
	}
	for words, want := range map[string]bool{"P NF": true, "P R": false} {
		if _, s := next(pg, picture(2, words)); strings.Contains(s.message, databasev1alpha1.AnnotationFenced) != want {
			t.Errorf("%s: %s", words, s.message)
		}
	}
}

// TestPlacement holds that an instance that can't come back says which node to open, and not what the scheduler thinks of evictions.
func TestPlacement(t *testing.T) {
	const (
		elsewhere = "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't match PersistentVolume's node affinity."
		evictions = " no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
		advice    = ". It starts when such a node takes pods again: see kubectl get nodes, and kubectl uncordon after a drain. The scheduler says: " + elsewhere
	)
	local := claim("1Gi", "1Gi")
	local.Annotations = map[string]string{annotationSelectedNode: "n1"}
	for name, c := range map[string]struct {
		says  string
		claim *corev1.PersistentVolumeClaim
		want  string
	}{
		"its node is known":       {elsewhere + evictions, local, "no node that takes pods can use its volume, which was made for node n1" + advice},
		"its node is not known":   {elsewhere + evictions, claim("1Gi", "1Gi"), "no node that takes pods can use its volume" + advice},
		"it waits for room":       {"3 Insufficient cpu." + evictions, local, "3 Insufficient cpu. See spec.resources, spec.nodeSelector, spec.affinity and spec.tolerations."},
		"it waits for its volume": {"pod has unbound immediate PersistentVolumeClaims." + evictions, claim("1Gi", ""), "pod has unbound immediate PersistentVolumeClaims."},
	} {
		pod := podOf("pg-0", 'N')
		pod.Status.Conditions = append(pod.Status.Conditions, unscheduled(c.says))
		bad := podProblemOf(&instance{name: "pg-0", pod: pod, claim: c.claim})
		if diff := cmp.Diff("pod pg-0 cannot be scheduled: "+c.want, bad.Message); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestPrimaryOfADrain holds what is said of the primary, and of the configuration, while instances wait for nodes.
func TestPrimaryOfADrain(t *testing.T) {
	strict := &databasev1alpha1.PostgreSQLSynchronous{Number: 1}
	const wait = ", but commits wait for standbys: spec.synchronous.number is 1, and 0 are ready"
	for _, c := range []struct {
		words string
		sync  *databasev1alpha1.PostgreSQLSynchronous
		phase databasev1alpha1.PostgreSQLPhase
		want  string
	}{
		{"P R Nc", strict, databasev1alpha1.PhaseRunning, "True PrimaryReady: pg-0 is primary"},
		{"P Nc Nc", strict, databasev1alpha1.PhaseDegraded, "True PrimaryReady: pg-0 is primary" + wait},
		{"P Nc Nc", nil, databasev1alpha1.PhaseDegraded, "True PrimaryReady: pg-0 is primary"},
		{"P N N", strict, databasev1alpha1.PhaseCreating, "True PrimaryReady: pg-0 is primary"},
		{"N Nc Nc", strict, databasev1alpha1.PhaseDegraded, "False NoPrimary: no primary: the instances elect"},
		{"Nc Nc Nc", strict, databasev1alpha1.PhaseDegraded, "False NoPrimary: no primary, because no instance has a node: pod pg-0 cannot be scheduled: no node"},
	} {
		pg := wanting(3)
		pg.Spec.Synchronous, pg.Status.Phase, pg.Status.Timeline = c.sync, c.phase, 1
		v := primaryReady(pg, &observed{cluster: *picture(3, c.words)})
		if got := string(v.Status) + " " + v.Reason + ": " + v.Message; !strings.HasPrefix(got, c.want) || strings.Contains(got, wait) != strings.Contains(c.want, wait) {
			t.Errorf("%s: %s; want %s", c.words, got, c.want)
		}
	}
	pg := wanting(2)
	for words, want := range map[string]string{"P Nc": "pg-0 is applying the configuration", "Nc P": "pg-0 applies the configuration when it starts; it waits for a node"} {
		if v := configurationState(pg, picture(2, words), false); v.Message != want {
			t.Errorf("%s: %s", words, v.Message)
		}
	}
}

// TestLostNode_namesTheCure holds that an instance whose node is gone says how to get another one, where that loses nothing.
func TestLostNode_namesTheCure(t *testing.T) {
	told := func(words string) string {
		seen := &observed{at: time.Now(), cluster: *picture(3, words)}
		return instancesReady(wanting(3), seen).Message
	}
	const cure = "If the node is lost for good, delete the PVC and the pod: the instance is then recloned from pg-0 (kubectl -n shop delete pvc/data-pg-2 pod/pg-2)"
	if got := told("P R Nc"); !strings.HasSuffix(got, cure) {
		t.Errorf("%q does not end with %q", got, cure)
	}
	for _, words := range []string{"N N Nc", "Nc Nc Nc"} {
		if got := told(words); strings.Contains(got, "delete") {
			t.Errorf("%s: %q deletes what may be the only copy", words, got)
		}
	}
	seen := picture(3, "P R NT")
	seen.instances[2].pod.Spec.NodeName = "n1"
	if got := instancesReady(wanting(3), &observed{at: time.Now(), cluster: *seen}).Message; !strings.Contains(got, "kubectl delete node n1") {
		t.Errorf("a pod that can't end on a lost node: %q", got)
	}
}
