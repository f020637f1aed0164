package postgresql

import (
	"strings"
	"testing"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

func wantsVolumes(number string) func(*databasev1alpha1.PostgreSQL) {
	return func(pg *databasev1alpha1.PostgreSQL) {
		pg.Annotations = map[string]string{databasev1alpha1.AnnotationVolumes: number}
	}
}

func inPlace(pg *databasev1alpha1.PostgreSQL) {
	metav1.SetMetaDataAnnotation(&pg.ObjectMeta, databasev1alpha1.AnnotationRecovery, "back/1")
}

// onVolumes makes a StatefulSet with claims of this number.
func onVolumes(size, number int) *k8sappsv1.StatefulSet {
	return &k8sappsv1.StatefulSet{Spec: k8sappsv1.StatefulSetSpec{
		Replicas:             new(int32(size)),
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: agentapi.ClaimTemplate(number)}}},
	}}
}

func TestVolumeSwitch_onlyToVolumesThatMayBeUsed(t *testing.T) {
	paused := func(pg *databasev1alpha1.PostgreSQL) { pg.Spec.Paused = true }
	for name, c := range map[string]struct {
		change    []func(*databasev1alpha1.PostgreSQL)
		present   int
		exist     bool
		switching bool
		blocked   string
	}{
		"no annotation":                       {nil, 1, false, false, ""},
		"the present ones":                    {[]func(*databasev1alpha1.PostgreSQL){wantsVolumes("2")}, 2, true, false, ""},
		"others with a claim":                 {[]func(*databasev1alpha1.PostgreSQL){wantsVolumes("2")}, 1, true, true, ""},
		"the first again":                     {[]func(*databasev1alpha1.PostgreSQL){wantsVolumes("1")}, 2, true, true, ""},
		"the first, by removing":              {nil, 2, true, true, ""},
		"others without a claim":              {[]func(*databasev1alpha1.PostgreSQL){wantsVolumes("2")}, 1, false, false, "create the PVC data-2-pg-0"},
		"no number":                           {[]func(*databasev1alpha1.PostgreSQL){wantsVolumes("two")}, 1, false, false, `is "two"`},
		"zero":                                {[]func(*databasev1alpha1.PostgreSQL){wantsVolumes("0")}, 1, true, false, `is "0"`},
		"another spelling":                    {[]func(*databasev1alpha1.PostgreSQL){wantsVolumes("02")}, 1, true, false, `is "02"`},
		"restored":                            {[]func(*databasev1alpha1.PostgreSQL){wantsVolumes("2"), inPlace}, 1, false, true, ""},
		"restored over volumes that exist":    {[]func(*databasev1alpha1.PostgreSQL){wantsVolumes("2"), inPlace}, 1, true, false, "delete the PVC data-2-pg-0"},
		"paused":                              {[]func(*databasev1alpha1.PostgreSQL){wantsVolumes("2"), paused}, 1, true, false, ""},
		"paused, and the number is no number": {[]func(*databasev1alpha1.PostgreSQL){wantsVolumes("x"), paused}, 1, true, false, ""},
	} {
		pg := wanting(1, c.change...)
		seen := assemble(pg, onVolumes(1, c.present), nil, nil, nil, podVersion{})
		if seen.volumes != c.present {
			t.Errorf("%s: volumes %d, want %d", name, seen.volumes, c.present)
		}
		switching, blocked := volumeSwitch(pg, &seen, c.exist)
		if switching != c.switching || (blocked == "") != (c.blocked == "") || !strings.Contains(blocked, c.blocked) {
			t.Errorf("%s: %t %q, want %t %q", name, switching, blocked, c.switching, c.blocked)
		}
	}
}

// TestVolumeSwitch_stopsAllFirst: no pod is taken away whose server runs, and the StatefulSet stays while there may be a pod.
func TestVolumeSwitch_stopsAllFirst(t *testing.T) {
	for name, c := range map[string]struct {
		size     int
		words    string
		change   func(*cluster)
		want     string
		replaced bool
	}{
		"all run":                       {3, "P R R", nil, "3 (VolumesSwitching)", false},
		"the primary has stopped":       {3, "Ns R R", nil, "3 (VolumesSwitching)", false},
		"all servers have stopped":      {3, "Ns Ns Ns", nil, "0 (VolumesSwitching)", false},
		"one does not answer":           {3, "Ns Ns Rq", nil, "3 (VolumesSwitching)", false},
		"one copies its data":           {2, "Nk Ns", nil, "0 (VolumesSwitching)", false},
		"pods are going":                {0, "NsT -", nil, "0 (VolumesSwitching)", false},
		"all are gone":                  {0, "- -", nil, "0 (VolumesSwitching)", true},
		"gone, and that is not seen":    {0, "- -", func(c *cluster) { c.set.Generation = 2 }, "0 (VolumesSwitching)", false},
		"gone, and it is being deleted": {0, "- -", func(c *cluster) { c.set.Generation, c.set.DeletionTimestamp = 2, new(metav1.Now()) }, "0 (VolumesSwitching)", true},
		"all run, with former agents": {2, "P R", func(c *cluster) {
			for i := range c.instances {
				c.instances[i].status.Volumes = 0
			}
		}, "0 (VolumesSwitching)", false},
	} {
		seen := picture(c.size, c.words)
		seen.switching = true
		for i := range seen.instances {
			if in := &seen.instances[i]; in.pod != nil && !in.unreachable {
				if in.status == nil {
					in.status = &agentapi.Status{Phase: agentapi.Running, Ready: true}
				}
				in.status.Volumes = 1
			}
		}
		if c.change != nil {
			c.change(seen)
		}
		if got := said(wanting(int32(len(seen.instances)), wantsVolumes("2")), seen); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if got := seen.stoppedForVolumes(); got != c.replaced {
			t.Errorf("%s: the StatefulSet is replaced: %t", name, got)
		}
	}
}

// TestAssemble_otherVolumes: a pod of other volumes, which the cache still shows, is not taken for the primary; and claims of other volumes
// are those of no instance, but their size counts.
func TestAssemble_otherVolumes(t *testing.T) {
	pg := wanting(1, wantsVolumes("2"))
	pod := podOf("pg-0", 'P')
	pod.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-pg-0"}}}}
	former, present := claim("3Gi", "3Gi"), claim("1Gi", "1Gi")
	former.Name, present.Name = "data-pg-0", "data-2-pg-0"
	claims := []corev1.PersistentVolumeClaim{*former, *present}

	seen := assemble(pg, onVolumes(1, 2), []corev1.Pod{*pod}, claims, nil, podVersion{})
	if seen.primary() != nil || len(seen.running()) != 0 {
		t.Error("a pod of the former volumes is an instance")
	}
	if seen.instances[0].claim == nil || seen.instances[0].claim.Name != "data-2-pg-0" || len(seen.otherClaims) != 1 || seen.otherClaims[0] != "data-pg-0" {
		t.Errorf("claim %v, others %v", seen.instances[0].claim, seen.otherClaims)
	}
	pg.Spec.Storage = resource.MustParse("1Gi")
	if g := grow(pg, &seen); g.size.String() != "3Gi" {
		t.Errorf("volumes of %s, and the data of the former ones may need 3Gi", g.size.String())
	}
	// While the StatefulSet is re-created for larger volumes, its pods say which volumes are in use.
	if seen := assemble(pg, nil, []corev1.Pod{*pod}, claims, nil, podVersion{}); seen.volumes != 1 || len(seen.running()) != 1 {
		t.Errorf("volumes %d, %d pods: want those of the pod", seen.volumes, len(seen.running()))
	}
}

func TestMayStartOn_noEmptyDatabaseBesideData(t *testing.T) {
	for name, c := range map[string]struct {
		change   []func(*databasev1alpha1.PostgreSQL)
		number   int
		existing []int
		want     string
	}{
		"none":                              {nil, 1, nil, ""},
		"the first":                         {nil, 1, []int{1}, ""},
		"none, with a number":               {[]func(*databasev1alpha1.PostgreSQL){wantsVolumes("2")}, 2, nil, ""},
		"several, with a number":            {[]func(*databasev1alpha1.PostgreSQL){wantsVolumes("2")}, 2, []int{1, 2}, ""},
		"several, without a number":         {nil, 1, []int{1, 2}, "several volumes"},
		"only others":                       {nil, 1, []int{2}, "those with PVCs: 2"},
		"only others, with a number":        {[]func(*databasev1alpha1.PostgreSQL){wantsVolumes("3")}, 3, []int{1, 2}, "those with PVCs: 1, 2"},
		"only others, and it is restored":   {[]func(*databasev1alpha1.PostgreSQL){wantsVolumes("3"), inPlace}, 3, []int{1, 2}, ""},
		"one that is being deleted":         {nil, 1, []int{-2}, ""},
		"the number is no number":           {[]func(*databasev1alpha1.PostgreSQL){wantsVolumes("x")}, 1, []int{1}, "from 1 to 999"},
		"the number is no number, and none": {[]func(*databasev1alpha1.PostgreSQL){wantsVolumes("-1")}, 1, nil, "from 1 to 999"},
	} {
		existing := map[int]bool{}
		for _, number := range c.existing {
			existing[max(number, -number)] = number > 0
		}
		err := mayStartOn(wanting(1, c.change...), c.number, existing)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestRestoredBy_neverSomethingElse: where a restore in place was asked for, nothing else fills the volumes, and volumes with data stay as
// they are.
func TestRestoredBy_neverSomethingElse(t *testing.T) {
	recovery := &databasev1alpha1.PostgreSQLRecovery{Backup: "shop"}
	if got, err := restoredBy(wanting(1), &inputs{}, false); got != nil || err != nil {
		t.Errorf("no restore: %v, %v", got, err)
	}
	if got, err := restoredBy(wanting(1, inPlace), &inputs{restore: recovery}, false); got != recovery || err != nil {
		t.Errorf("a restore: %v, %v", got, err)
	}
	if _, err := restoredBy(wanting(1, inPlace), &inputs{}, false); err == nil || !strings.Contains(err.Error(), `Restore "back"`) {
		t.Errorf("the Restore is gone: %v", err)
	}
	if _, err := restoredBy(wanting(1, inPlace), &inputs{restore: recovery}, true); err == nil {
		t.Error("a restore over volumes that exist")
	}
}
