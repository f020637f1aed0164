package postgresql

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

// picture makes a cluster of words, one for each instance in order: P primary, R replica, N not ready, - no pod; then ! for
// outdated, ? for a restart that is needed, m for one that the primary has to be the first for, F for fenced, T for terminating,
// s for a server that its agent has stopped, c for one that no node takes although it has its volume, l for one that is to leave
// its node, q for an agent that does not answer, k for one that copies its data, u for a token of a ServiceAccount that was deleted.
func picture(size int, words string) *cluster {
	c := &cluster{set: &k8sappsv1.StatefulSet{Spec: k8sappsv1.StatefulSetSpec{Replicas: new(int32(size))}}}
	if size < 0 {
		c.set = nil
	}
	for ordinal, word := range strings.Fields(words) {
		in := instance{ordinal: ordinal, name: agentapi.Pod("pg", ordinal)}
		if word[0] != '-' {
			in.pod = podOf(in.name, word[0])
		}
		in.outdated = strings.Contains(word, "!")
		in.unreachable = strings.Contains(word, "q")
		in.fenced = strings.Contains(word, "F")
		if strings.Contains(word, "?") {
			in.status = &agentapi.Status{Ready: word[0] != 'N', PendingRestart: []string{"shared_buffers"}}
		}
		if strings.Contains(word, "m") {
			in.status = &agentapi.Status{Ready: true, PendingRestart: []string{"max_connections"}}
		}
		if strings.Contains(word, "s") {
			in.status = &agentapi.Status{Phase: agentapi.Stopped}
		}
		if strings.Contains(word, "k") {
			in.status = &agentapi.Status{Phase: agentapi.Cloning, Message: "copies pg-0"}
		}
		if strings.Contains(word, "T") {
			in.pod.DeletionTimestamp = new(metav1.Now())
		}
		if strings.Contains(word, "c") {
			in.pod.Status.Conditions = append(in.pod.Status.Conditions, unscheduled("1 node(s) were unschedulable"))
			in.claim = claim("1Gi", "1Gi")
		}
		in.onClosedNode = strings.Contains(word, "l")
		if strings.Contains(word, "n") {
			in.pod.Spec.NodeName = "n1"
		}
		in.tokenRevoked = strings.Contains(word, "u")
		c.instances = append(c.instances, in)
	}
	return c
}

func podOf(name string, letter byte) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{}}}
	ready := corev1.ConditionTrue
	switch letter {
	case 'P':
		pod.Labels[databasev1alpha1.LabelRole] = databasev1alpha1.LabelRolePrimary
	case 'R':
		pod.Labels[databasev1alpha1.LabelRole] = databasev1alpha1.LabelRoleReplica
	case 'N':
		ready = corev1.ConditionFalse
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	return pod
}

// said is what next decided, in short.
func said(pg *databasev1alpha1.PostgreSQL, c *cluster) string {
	count, s := next(pg, c)
	out := fmt.Sprint(count)
	if s.Code != NoStep {
		out += " " + string(s.Code)
	}
	if s.target != nil {
		out += " " + s.target.name
	}
	if s.reason != "" {
		out += " (" + s.reason + ")"
	}
	return out
}

func wanting(replicas int32, change ...func(*databasev1alpha1.PostgreSQL)) *databasev1alpha1.PostgreSQL {
	pg := &databasev1alpha1.PostgreSQL{ObjectMeta: metav1.ObjectMeta{Name: "pg", Namespace: "shop"}}
	pg.Spec.Replicas = &replicas
	for _, f := range change {
		f(pg)
	}
	return pg
}

func asks(name string) func(*databasev1alpha1.PostgreSQL) {
	return func(pg *databasev1alpha1.PostgreSQL) {
		pg.Annotations = map[string]string{databasev1alpha1.AnnotationSwitchover: name}
	}
}

func copies(names string) func(*databasev1alpha1.PostgreSQL) {
	return func(pg *databasev1alpha1.PostgreSQL) {
		pg.Annotations = map[string]string{databasev1alpha1.AnnotationReclone: names}
	}
}

func accepts(name string) func(*databasev1alpha1.PostgreSQL) {
	return func(pg *databasev1alpha1.PostgreSQL) {
		pg.Annotations = map[string]string{databasev1alpha1.AnnotationAcceptDataLoss: name}
	}
}

func asleepPlease(pg *databasev1alpha1.PostgreSQL) { pg.Spec.Hibernated = true }

func TestNext(t *testing.T) {
	for _, c := range []struct {
		name  string
		pg    *databasev1alpha1.PostgreSQL
		size  int
		words string
		want  string
	}{
		{"nothing is there", wanting(3), -1, "- - -", "3"},
		{"all is well", wanting(3), 3, "P R R", "3"},

		{"more are wanted", wanting(3), 2, "P R -", "3"},
		{"more are wanted of one that starts", wanting(3), 1, "N - -", "1 (Scaling)"},
		{"more are wanted of one that serves", wanting(3), 1, "P - -", "3"},
		{"fewer are wanted", wanting(1), 3, "P R R", "2 (Scaling)"},
		{"fewer are wanted, one is going", wanting(1), 2, "P R RT", "2 (Scaling)"},
		{"fewer are wanted, one has gone", wanting(1), 2, "P R", "1 (Scaling)"},
		{"the highest is the primary", wanting(1), 3, "R R P", "3 RequestSwitchover pg-0 (Switchover)"},
		{"the highest is the primary, and the one to stay is not ready", wanting(1), 3, "N R P", "3 (Scaling)"},
		{"the highest is the primary, and two stay", wanting(2), 3, "N R P", "3 RequestSwitchover pg-1 (Switchover)"},
		{"fewer are wanted, and nobody is primary", wanting(1), 3, "R R N", "3 (Scaling)"},

		{"fewer are wanted, and the one to go is the only one that follows", wanting(2), 3, "P N R", "3 (Scaling)"},
		{"fewer are wanted, and the one to go does not serve either", wanting(2), 3, "P N N", "2 (Scaling)"},
		{"fewer are wanted, and one that stays is stopped on purpose", wanting(2), 3, "P NF R", "2 (Scaling)"},
		{"fewer are wanted, and one that stays may be cured", wanting(2), 3, "P N! R", "3 ReplacePod pg-1 (Updating)"},
		{"fewer are wanted, and one that goes does not serve", wanting(1), 3, "P N R", "2 (Scaling)"},
		{"more are wanted of one that may be cured", wanting(3), 1, "N! - -", "1 ReplacePod pg-0 (Updating)"},

		{"hibernate: the servers stop first", wanting(3, asleepPlease), 3, "P R R", "3 (Scaling)"},
		{"hibernate: the primary has stopped", wanting(3, asleepPlease), 3, "Ns R R", "3 (Scaling)"},
		{"hibernate: one runs, and is not ready", wanting(3, asleepPlease), 3, "Ns N? Ns", "3 (Scaling)"},
		{"hibernate: all have stopped", wanting(3, asleepPlease), 3, "Ns Ns Ns", "0 (Scaling)"},
		{"hibernate: all have stopped, and one is lost", wanting(3, asleepPlease), 3, "Ns N -", "0 (Scaling)"},
		{"hibernate: one of no use", wanting(1, asleepPlease), 1, "N", "0 (Scaling)"},
		{"hibernating", wanting(3, asleepPlease), 0, "PT", "0 (Scaling)"},
		{"hibernated", wanting(3, asleepPlease), 0, "", "0"},
		{"wake", wanting(3), 0, "- - -", "3"},

		{"a replica is outdated", wanting(3), 3, "P R! R", "3 ReplacePod pg-1 (Updating)"},
		{"all are outdated: the highest first", wanting(3), 3, "P! R! R!", "3 ReplacePod pg-2 (Updating)"},
		{"the primary is not the lowest", wanting(3), 3, "R! P! R", "3 ReplacePod pg-0 (Updating)"},
		{"one is on its way", wanting(3), 3, "P! R! N", "3 (Updating)"},
		{"one is missing", wanting(3), 3, "P! R! -", "3 (Updating)"},
		{"one is being stopped", wanting(3), 3, "P! R! R!T", "3 (Updating)"},
		{"an outdated one does not serve", wanting(3), 3, "P! N! R!", "3 ReplacePod pg-1 (Updating)"},
		{"an outdated one does not serve, and another neither", wanting(3), 3, "P! N! N", "3 (Updating)"},
		{"an outdated one copies its data", wanting(3), 3, "P! R! N!k", "3 (Updating)"},
		{"an outdated one copies its data, and another does not serve", wanting(3), 3, "P! N! N!k", "3 (Updating)"},
		{"one alone gets its first data", wanting(1), 1, "N!k", "1 (Updating)"},
		{"fewer are wanted, and one that stays copies its data", wanting(2), 3, "P N!k R", "3 (Scaling)"},
		{"only the primary is outdated", wanting(3), 3, "P! R R", "3 RequestSwitchover pg-1 (Switchover)"},
		{"only the primary is outdated, and hands over", wanting(3, asks("pg-1")), 3, "P! R R", "3 (Switchover)"},
		{"it has handed over", wanting(3, asks("pg-1")), 3, "R! P R", "3 ReplacePod pg-0 (Updating)"},
		{"it is back", wanting(3, asks("pg-1")), 3, "R P R", "3 ClearSwitchover"},
		{"one that is asked for may be cured", wanting(3, asks("pg-1")), 3, "P! N! R!", "3 ReplacePod pg-1 (Updating)"},
		{"another may be cured while one is asked for", wanting(3, asks("pg-2")), 3, "P N! R", "3 ReplacePod pg-1 (Updating)"},
		{"one that is asked for is under way", wanting(3, asks("pg-1")), 3, "P! N R!", "3 (Switchover)"},
		{"an outdated one waits for one that may be down", wanting(3), 3, "P R! Rq", "3 (Updating)"},
		{"an outdated one that may be down itself", wanting(3), 3, "P R!q R", "3 ReplacePod pg-1 (Updating)"},
		{"an outdated primary waits for one that may be down", wanting(3), 3, "P! Rq R", "3 (Updating)"},
		{"one that may be cured waits for one that may be down", wanting(3), 3, "P N! Rq", "3 (Updating)"},
		{"none serves, and no agent answers", wanting(3), 3, "N!q N!q N!q", "3 ReplacePod pg-0 (Updating)"},
		{"there is one alone", wanting(1), 1, "P!", "1 ReplacePod pg-0 (Updating)"},
		{"there is one alone, which does not serve", wanting(1), 1, "N!", "1 ReplacePod pg-0 (Updating)"},
		{"nobody is primary", wanting(3), 3, "R! R! R!", "3 ReplacePod pg-2 (Updating)"},
		{"one does not serve, and nothing is to be done", wanting(3), 3, "P R N", "3"},

		{"replicas restart first", wanting(3), 3, "P? R? R?", "3 RestartServer pg-2 (Updating)"},
		{"then the primary hands over", wanting(3), 3, "P? R R", "3 RequestSwitchover pg-1 (Switchover)"},
		{"the primary restarts in place for what standbys follow it in", wanting(3), 3, "Pm R R", "3 RestartServer pg-0 (Updating)"},
		{"after the replicas", wanting(3), 3, "Pm R Rm", "3 RestartServer pg-2 (Updating)"},
		{"it hands over if its template is old", wanting(3), 3, "P!m R R", "3 RequestSwitchover pg-1 (Switchover)"},
		{"and restarts as a replica", wanting(3, asks("pg-1")), 3, "R? P R", "3 RestartServer pg-0 (Updating)"},
		{"one alone restarts", wanting(1), 1, "P?", "1 RestartServer pg-0 (Updating)"},
		{"a restart waits for one that starts", wanting(3), 3, "P? R? N", "3 (Updating)"},
		{"a restart waits for one that may have been restarted", wanting(3), 3, "P? R? Rq", "3 (Updating)"},
		{"a restart of the primary, too", wanting(2), 2, "Pm Rq", "2 (Updating)"},
		{"one that is stopped anyway is not waited for", wanting(3), 3, "P? R? RqF", "3 RestartServer pg-1 (Updating)"},
		{"silence alone is nothing to wait for", wanting(3), 3, "P R Rq", "3"},

		{"a fenced one is left alone", wanting(3), 3, "P! NF R!", "3 ReplacePod pg-2 (Updating)"},
		{"a fenced one takes nothing over", wanting(3), 3, "P! RF R", "3 RequestSwitchover pg-2 (Switchover)"},
		{"a fenced one is not replaced", wanting(2), 2, "P NF!", "2"},

		{"one can't come back, and the primary is to leave too", wanting(3), 3, "Pl Nc R", "3 RequestSwitchover pg-2 (Switchover)"},
		{"one can't come back, and the primary hands over", wanting(3, asks("pg-2")), 3, "Pl Nc R", "3 (Switchover)"},
		{"one can't come back, and the primary has handed over", wanting(3, asks("pg-2")), 3, "Rl Nc P", "3 ClearSwitchover"},
		{"one can't come back, and all are to leave", wanting(3), 3, "Pl Nc Rl", "3"},
		{"one can't come back, and the primary may stay", wanting(3), 3, "P Nc Rl", "3"},
		{"the primary is to leave, and all others serve", wanting(3), 3, "Pl R R", "3"},

		{"the token of one that does not serve is void", wanting(3), 3, "P Nu R", "3 ReplacePod pg-1 (Updating)"},
		{"the tokens of all are void, and they serve", wanting(3), 3, "Pu Ru Ru", "3"},
		{"the tokens of all are void, and nobody can lead", wanting(3, asks("any")), 3, "Nu Ru Ru", "3 ReplacePod pg-0 (Updating)"},
		{"the token is void of one that is fenced", wanting(3), 3, "P NuF R", "3"},
		{"the token is void of one that is on its way", wanting(3), 3, "P NuT R", "3"},

		{"a number is asked for", wanting(3, asks("2")), 3, "P R R", "3 RequestSwitchover pg-2 (Switchover)"},
		{"any is asked for", wanting(3, asks("any")), 3, "P R R", "3 RequestSwitchover pg-1 (Switchover)"},
		{"any is asked for, and one is to leave", wanting(3, asks("any")), 3, "P Rl R", "3 RequestSwitchover pg-2 (Switchover)"},
		{"any is asked for, and nobody can", wanting(2, asks("any")), 2, "P N", "2 (Switchover)"},
		{"any is asked for of one alone", wanting(1, asks("any")), 1, "P", "1 ClearSwitchover"},
		{"any is asked for, and one may be down", wanting(3, asks("any")), 3, "P Rq R", "3 RequestSwitchover pg-2 (Switchover)"},
		{"a pod is asked for that there is not", wanting(3, asks("other-0")), 3, "P R R", "3 ClearSwitchover"},
		{"the primary is asked for", wanting(3, asks("pg-0")), 3, "P R R", "3 ClearSwitchover"},
		{"a copy was asked for, and it serves", wanting(3, copies("pg-2, pg-1")), 3, "P R R", "3 ClearReclone"},
		{"a copy was asked for", wanting(3, copies("pg-2")), 3, "P R N", "3"},
		{"a copy was asked for, another one is late", wanting(3, copies("pg-2")), 3, "P N R", "3 ClearReclone"},
		{"a loss is accepted, and nobody leads", wanting(3, accepts("pg-1")), 3, "N R R", "3"},
		{"a loss was accepted, and the former primary is not back", wanting(3, accepts("pg-1")), 3, "N P R", "3"},
		{"a loss was accepted, and all is well", wanting(3, accepts("pg-1")), 3, "R P R", "3 ClearAcceptDataLoss"},
		{"a loss was accepted, and another one leads", wanting(3, accepts("pg-1")), 3, "P N R", "3 ClearAcceptDataLoss"},
		{"a loss is accepted of no instance", wanting(3, accepts("pg-7")), 3, "N R R", "3 ClearAcceptDataLoss"},
		{"one alone can't hand over", wanting(1, asks("pg-0")), 1, "P", "1 ClearSwitchover"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, said(c.pg, picture(c.size, c.words))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.words, diff)
			}
		})
	}
}

// TestNext_saysHowToGoOn holds that whatever waits for an instance says how to go on without that instance, unless it is on its way.
func TestNext_saysHowToGoOn(t *testing.T) {
	const without = "add it to the annotation fettle.dev/fenced"
	for _, c := range []struct {
		name  string
		pg    *databasev1alpha1.PostgreSQL
		words string
		want  []string
	}{
		{"one is broken for good", wanting(3), "P! R! N", []string{"continues when pg-2 is ready", "If pg-2 can't recover", without}},
		{"the agent of one is out of reach", wanting(3), "P! R! Rq", []string{"agent of pg-2", "TCP port 8443", without}},
		{"a low number is broken when there are to be fewer", wanting(2), "N P R", []string{"pg-2 is removed when pg-0 is ready", "highest number first", without}},
		{"one copies its data", wanting(3), "P! R! N!k", []string{"continues when pg-2 is ready; pg-2 is copying its data"}},
	} {
		_, s := next(c.pg, picture(3, c.words))
		for _, want := range c.want {
			if !strings.Contains(s.message, want) {
				t.Errorf("%s: %q does not say %q", c.name, s.message, want)
			}
		}
		if strings.Contains(c.words, "k") && strings.Contains(s.message, without) {
			t.Errorf("%s: %q would have the copy start again from zero", c.name, s.message)
		}
	}
	// And that is so.
	if got := said(wanting(3), picture(3, "P! R! NF")); got != "3 ReplacePod pg-1 (Updating)" {
		t.Errorf("a broken one that is fenced holds the update up: %s", got)
	}
	if got := said(wanting(2), picture(3, "NF P R")); got != "2 (Scaling)" {
		t.Errorf("a broken one that is fenced keeps the highest from being removed: %s", got)
	}
}
