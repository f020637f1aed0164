package postgresql

import (
	"fmt"
	"strings"
	"testing"
	"time"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

// claimsOf are bound claims of the instances with these numbers; the mark is on all of them.
func claimsOf(mark string, ordinals ...int) (claims []corev1.PersistentVolumeClaim) {
	for _, ordinal := range ordinals {
		c := claim("1Gi", "1Gi")
		c.Name = agentapi.Claim("pg", 1, ordinal)
		if mark != "" {
			c.Annotations = map[string]string{databasev1alpha1.AnnotationUnusedBy: mark}
		}
		claims = append(claims, *c)
	}
	return claims
}

// TestOrphanedVolumes_stayUntilDecided holds that a volume which may have the latest data is told of until somebody has decided,
// whatever pods are there, and that one which was only scaled away is not.
func TestOrphanedVolumes_stayUntilDecided(t *testing.T) {
	uid := func(pg *databasev1alpha1.PostgreSQL) { pg.UID = "new" }
	set := func(size int32) *k8sappsv1.StatefulSet {
		return &k8sappsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{UID: "set"}, Spec: k8sappsv1.StatefulSetSpec{Replicas: &size}}
	}
	podsOf := func(name, owner string) []corev1.Pod {
		pod := podOf(name, 'R')
		pod.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(owner), Controller: new(true)}}
		return []corev1.Pod{*pod}
	}
	for _, c := range []struct {
		name   string
		pg     *databasev1alpha1.PostgreSQL
		set    *k8sappsv1.StatefulSet
		pods   []corev1.Pod
		claims []corev1.PersistentVolumeClaim
		want   string
	}{
		{"marked", wanting(1, uid), set(1), nil, claimsOf("new", 1, 2), "[data-pg-1 data-pg-2]"},
		{"marked, before there is a StatefulSet", wanting(1, uid), nil, nil, claimsOf("new", 1), "[data-pg-1]"},
		{"marked, and a former pod is there", wanting(1, uid), set(1), podsOf("pg-1", "former"), claimsOf("new", 1), "[data-pg-1]"},
		{"marked, and a former pod is there before the StatefulSet is", wanting(1, uid), nil, podsOf("pg-1", "former"), claimsOf("new", 1), "[data-pg-1]"},
		{"marked, and in use until it is scaled away", wanting(1, uid), set(1), podsOf("pg-1", "set"), claimsOf("new", 1), "[]"},
		{"marked, and replicas were raised", wanting(2, uid), set(1), nil, claimsOf("new", 1), "[]"},
		{"marked, and replicas were raised while it sleeps", wanting(2, uid, asleepPlease), set(0), nil, claimsOf("new", 1), "[]"},
		{"marked, and asleep", wanting(1, uid, asleepPlease), set(0), nil, claimsOf("new", 1), "[data-pg-1]"},
		{"marked by an earlier one", wanting(1, uid), set(1), nil, claimsOf("old", 1), "[]"},
		{"scaled away, or acknowledged", wanting(1, uid), set(1), nil, claimsOf("", 1, 2), "[]"},
		{"of another name", wanting(1, uid), set(1), nil, []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{
			Name: "data-other-1", Annotations: map[string]string{databasev1alpha1.AnnotationUnusedBy: "new"},
		}}}, "[]"},
	} {
		seen := assemble(c.pg, c.set, c.pods, c.claims, nil, podVersion{})
		if got := fmt.Sprint(seen.orphaned); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		v := volumesReady(c.pg, &seen, growth{}, nil, time.Now())
		if told := v.Reason == databasev1alpha1.ReasonOrphanedVolumes; told != (c.want != "[]") {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
	seen := assemble(wanting(1, uid), set(1), nil, claimsOf("new", 1), nil, podVersion{})
	v := volumesReady(wanting(1, uid), &seen, growth{}, nil, time.Now())
	if want := "kubectl -n shop annotate pvc data-pg-1 fettle.dev/unused-by-"; v.Status != metav1.ConditionFalse || !strings.HasSuffix(v.Message, want) {
		t.Errorf("%s %q: want False, and at the end %q", v.Status, v.Message, want)
	}
}

// TestClaims_dying holds that nothing starts on a volume that is about to be deleted.
func TestClaims_dying(t *testing.T) {
	pg := wanting(1, func(pg *databasev1alpha1.PostgreSQL) { pg.UID = "new" })
	for _, c := range []struct {
		name string
		meta metav1.ObjectMeta
		want bool
	}{
		{"kept", metav1.ObjectMeta{}, false},
		{"terminating", metav1.ObjectMeta{DeletionTimestamp: new(metav1.Now())}, true},
		{"of a deleted PostgreSQL", metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: ownerKind, UID: "old"}}}, true},
		{"of a deleted StatefulSet", metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", UID: "old"}}}, true},
		{"of this PostgreSQL", metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: ownerKind, UID: "new"}}}, false},
		{"of a volume snapshot's restore", metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "Restore", UID: "old"}}}, false},
	} {
		if got := isTerminating(pg, &metav1.PartialObjectMetadata{ObjectMeta: c.meta}); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestClaims_ofInstances holds that no volume of an instance is overlooked, as an empty database could be made beside it, and that
// none of others is touched.
func TestClaims_ofInstances(t *testing.T) {
	const none = -1
	for name, want := range map[string]int{
		"data-pg-0": 0, "data-pg-1": 1, "data-pg-8": 8,
		"data-pg-9": none, "data-pg-1-0": none, "data-pg": none, "data-other-0": none, "pg-0": none, "logs-pg-0": none, "data-data-pg-0": none,
	} {
		volumes, got, ok := parseClaim(wanting(1), name)
		if !ok || volumes != 1 {
			got = none
		}
		if got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}
