package postgresql

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

func cmpKind(o client.Object) string {
	if kind := o.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	return fmt.Sprintf("%T", o)
}

func secretsOf(c certificates) (ca, server, replication *corev1.Secret) {
	object := func(name string, certificate, key []byte) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"tls.crt": certificate, "tls.key": key}}
	}
	return object("pg-ca", c.ca.Certificate, c.ca.Key), object("pg-server", c.server.Certificate, c.server.Key),
		object("pg-replication", c.client.Certificate, c.client.Key)
}

func claim(asked, has string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(asked)}
	if has != "" {
		c.Status.Phase = corev1.ClaimBound
		c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(has)}
	}
	return c
}

func TestGrow(t *testing.T) {
	const gib = 1 << 30
	auto := func(step, most string) *databasev1alpha1.PostgreSQLAutoGrow {
		return &databasev1alpha1.PostgreSQLAutoGrow{Threshold: 80, Step: step, Max: resource.MustParse(most)}
	}
	for _, c := range []struct {
		name    string
		storage string
		auto    *databasev1alpha1.PostgreSQLAutoGrow
		asked   string
		has     string
		total   uint64
		percent uint64
		set     string
		want    string // size, number of claims to patch, and whether the StatefulSet is made anew
	}{
		{"as it should be", "1Gi", nil, "1Gi", "1Gi", gib, 50, "1Gi", "1Gi 0 false"},
		{"full, and nobody wants it to grow", "1Gi", nil, "1Gi", "1Gi", gib, 99, "1Gi", "1Gi 0 false"},
		{"more is wanted", "2Gi", nil, "1Gi", "1Gi", gib, 50, "1Gi", "2Gi 1 false"},
		{"more is wanted and asked for", "2Gi", nil, "2Gi", "1Gi", gib, 50, "1Gi", "2Gi 0 true"},
		{"it has grown", "2Gi", nil, "2Gi", "2Gi", 2 * gib, 50, "2Gi", "2Gi 0 false"},
		{"below the threshold", "1Gi", auto("20%", "5Gi"), "1Gi", "1Gi", gib, 79, "1Gi", "1Gi 0 false"},
		{"at the threshold", "1Gi", auto("20%", "5Gi"), "1Gi", "1Gi", gib, 80, "1Gi", "1229Mi 1 false"},
		{"by a size", "1Gi", auto("2Gi", "5Gi"), "1Gi", "1Gi", gib, 90, "1Gi", "3Gi 1 false"},
		{"not beyond the greatest", "1Gi", auto("100%", "1536Mi"), "1Gi", "1Gi", gib, 90, "1Gi", "1536Mi 1 false"},
		{"at the greatest", "1Gi", auto("100%", "1Gi"), "1Gi", "1Gi", gib, 99, "1Gi", "1Gi 0 false"},
		{"by as many steps as it takes", "10Gi", auto("1Gi", "50Gi"), "10Gi", "10Gi", 10 * gib, 98, "10Gi", "13Gi 1 false"},
		{"by as many steps as it may", "10Gi", auto("1Gi", "12Gi"), "10Gi", "10Gi", 10 * gib, 98, "10Gi", "12Gi 1 false"},
		{"not while it is growing", "1Gi", auto("20%", "5Gi"), "2Gi", "1Gi", gib, 99, "2Gi", "2Gi 0 false"},
		{"not by a figure from before", "1Gi", auto("20%", "5Gi"), "2Gi", "2Gi", gib, 99, "2Gi", "2Gi 0 false"},
		{"what grew by itself stays", "1Gi", nil, "3Gi", "3Gi", 3 * gib, 10, "3Gi", "3Gi 0 false"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pg := wanting(1)
			pg.Spec.Storage, pg.Spec.AutoGrow = resource.MustParse(c.storage), c.auto
			seen := picture(1, "P")
			seen.set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{*claim(c.set, "")}
			seen.instances[0].claim = claim(c.asked, c.has)
			seen.instances[0].status = &agentapi.Status{Ready: true, DiskTotal: c.total, DiskFree: c.total * (100 - c.percent) / 100}
			g := grow(pg, seen)
			if diff := cmp.Diff(c.want, fmt.Sprint(g.size.String(), " ", len(g.patch), " ", g.replaceSet)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestVolumesReady(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		name  string
		claim *corev1.PersistentVolumeClaim
		age   time.Duration
		used  uint64
		err   error
		want  string
	}{
		{"well", claim("1Gi", "1Gi"), time.Hour, 10, nil, "True VolumesReady"},
		{"no claim yet", nil, 0, 10, nil, "True VolumesReady"},
		{"full", claim("1Gi", "1Gi"), time.Hour, 96, nil, "False DiskFull"},
		{"full and refused", claim("1Gi", "1Gi"), time.Hour, 96, fmt.Errorf("no"), "False DiskFull"},
		{"refused", claim("1Gi", "1Gi"), time.Hour, 10, fmt.Errorf("no"), "False VolumeStuck"},
		{"just made", claim("1Gi", ""), time.Second, 0, nil, "Unknown Creating"},
		{"unbound", claim("1Gi", ""), time.Hour, 0, nil, "False VolumeNotBound"},
		{"growing", claim("1Gi", "512Mi"), time.Hour, 10, nil, "False VolumeGrowing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := picture(1, "P")
			if seen.instances[0].claim = c.claim; c.claim != nil {
				c.claim.CreationTimestamp = metav1.NewTime(now.Add(-c.age))
			}
			seen.instances[0].status = &agentapi.Status{Ready: true, DiskTotal: 100, DiskFree: 100 - c.used}
			v := volumesReady(wanting(1), seen, growth{size: resource.MustParse("1Gi")}, c.err, now)
			if diff := cmp.Diff(c.want, string(v.Status)+" "+v.Reason); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestGrowth_refused holds that a refusal is not taken for one of another cause.
func TestGrowth_refused(t *testing.T) {
	claims := schema.GroupResource{Resource: "persistentvolumeclaims"}
	for _, c := range []struct {
		why       string
		want, not string
	}{
		{"exceeded quota: storage, requested: requests.storage=1Gi, used: requests.storage=2Gi, limited: requests.storage=2Gi", "raise the ResourceQuota", "StorageClass"},
		{"only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize", "allowVolumeExpansion: true", "ResourceQuota"},
	} {
		err := apierrors.NewForbidden(claims, "data-pg-0", errors.New(c.why))
		v := volumesReady(wanting(1), picture(1, "P"), growth{}, err, time.Now())
		if v.Reason != databasev1alpha1.ReasonVolumeStuck || !strings.Contains(v.Message, c.want) || strings.Contains(v.Message, c.not) {
			t.Errorf("%s: %s", v.Reason, v.Message)
		}
	}
}

// TestHolderDead holds that a Lease is released for nobody who may live.
func TestHolderDead(t *testing.T) {
	renewed := time.Date(2026, 1, 1, 0, 0, 10, 0, time.UTC)
	ended := func(at time.Time) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(at)}}
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	for _, c := range []struct {
		name        string
		holder      string
		state, last corev1.ContainerState
		want        bool
	}{
		{"ended after its last renewal", "pg-0/pg-0", ended(renewed.Add(2 * time.Second)), corev1.ContainerState{}, true},
		{"ended, and waits to be started again", "pg-0/pg-0", waiting, ended(renewed.Add(2 * time.Second)), true},
		{"started again, by an old report", "pg-0/pg-0", ended(renewed.Add(-2 * time.Second)), corev1.ContainerState{}, false},
		{"runs", "pg-0/pg-0", running, ended(renewed.Add(2 * time.Second)), false},
		{"another pod of that name", "pg-0/former", ended(renewed.Add(2 * time.Second)), corev1.ContainerState{}, false},
		{"a pod that is gone", "pg-7/pg-7", ended(renewed.Add(2 * time.Second)), corev1.ContainerState{}, false},
		{"the name of no pod", "fettle-operator/unknown", ended(renewed.Add(2 * time.Second)), corev1.ContainerState{}, false},
		{"free", "", ended(renewed.Add(2 * time.Second)), corev1.ContainerState{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := picture(1, "N")
			seen.instances[0].pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: mainContainer, State: c.state, LastTerminationState: c.last}}
			lease := &coordinationv1.Lease{}
			lease.Spec.RenewTime = new(metav1.NewMicroTime(renewed))
			if c.holder != "" {
				lease.Spec.HolderIdentity = &c.holder
			}
			if got := holderDead(lease, seen); got != c.want {
				t.Errorf("dead: %v", got)
			}
		})
	}
}
