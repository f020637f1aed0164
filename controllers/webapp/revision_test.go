package webapp

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"sigs.k8s.io/yaml"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/rollout"
)

// rolling is a WebApp with automatic rollback of image, after good became ready.
func rolling(image string, good *revision) fixture {
	return newFixture(func(s *fixture) {
		s.app.Spec.Rollout.AutoRollback = true
		s.app.Spec.Image = image
		s.in.good = good
	})
}

func goodRevisionOf(image string) *revision {
	s := rolling(image, nil)
	r := desired(s.app, s.in).own
	return &r
}

func TestRollback_recordedFirst(t *testing.T) {
	good := goodRevisionOf("nginx:good")
	s := rolling("nginx:bad", good)
	exceeded(s.seen.deployment)

	first := desired(s.app, s.in)
	if first.running.hash != first.own.hash {
		t.Fatal("rolls back before the failure is in status")
	}
	status := s.status()
	if status.FailedRevision != first.own.hash || status.FailureMessage == "" {
		t.Fatalf("the journal has %q (%q), want %q", status.FailedRevision, status.FailureMessage, first.own.hash)
	}
	if second := desired(s.app, s.in); second.running.hash != good.hash || second.own.hash != first.own.hash {
		t.Fatalf("runs %s, want the last good one %s", second.running.hash, good.hash)
	}

	// The good template runs: the journal stays, until the spec changes.
	s.seen.deployment.Spec.Template.Annotations[annotationRevision] = good.hash
	s.seen.deployment.Status.Conditions = nil
	s.seen.deployment.Status.AvailableReplicas = 3
	if status = s.status(); status.FailedRevision == "" || status.Phase != appsv1.PhaseDegraded {
		t.Errorf("after the rollback: failedRevision %q, phase %s", status.FailedRevision, status.Phase)
	}
	s.app.Spec.Image = "nginx:next"
	if status = s.status(); status.FailedRevision != "" || desired(s.app, s.in).running.image != "nginx:next" {
		t.Error("the next image is not tried")
	}
}

func TestRollback_missingReference(t *testing.T) {
	s := rolling("nginx:bad", goodRevisionOf("nginx:good"))
	s.app.Spec.ConfigRefs = []appsv1.ConfigRef{{Kind: kindConfigMap, Name: "a"}}
	s.in.config = []refState{{ref: s.app.Spec.ConfigRefs[0], found: true}}
	failed := desired(s.app, s.in).own.hash
	s.app.Status.FailedRevision = failed
	s.in.config[0].found = false
	if got := s.status().FailedRevision; got != failed {
		t.Errorf("while the reference is missing failedRevision is %q, want %q", got, failed)
	}
}

func TestNoRollback(t *testing.T) {
	for name, change := range map[string]func(*fixture){
		"not asked for": func(s *fixture) { s.app.Spec.Rollout.AutoRollback = false },
		"nothing good":  func(s *fixture) { s.in.good = nil },
		"itself good":   func(s *fixture) { s.in.good = goodRevisionOf("nginx:bad") },
		"not failed":    func(s *fixture) { s.seen.deployment.Status.Conditions = nil },
	} {
		s := rolling("nginx:bad", goodRevisionOf("nginx:good"))
		exceeded(s.seen.deployment)
		change(&s)
		if status := s.status(); status.FailedRevision != "" {
			t.Errorf("%s: failedRevision %q", name, status.FailedRevision)
		}
	}
}

func TestGoodRevision(t *testing.T) {
	good := goodRevisionOf("nginx:good")
	recorded := func(s fixture) (images []string) {
		for _, o := range desired(s.app, s.in).objects {
			if r, ok := o.(*appsv1ac.ControllerRevisionApplyConfiguration); ok {
				images = append(images, lastGood([]k8sappsv1.ControllerRevision{stored(r)}).image)
			}
		}
		return images
	}
	s := rolling("nginx:new", good)
	if diff := cmp.Diff([]string{"nginx:good"}, recorded(s)); diff != "" {
		t.Errorf("while the new one is not ready: %s", diff)
	}
	s.in.ready = desired(s.app, s.in).own.hash
	if diff := cmp.Diff([]string{"nginx:new"}, recorded(s)); diff != "" {
		t.Errorf("once it is ready: %s", diff)
	}
	s.app.Spec.Rollout.AutoRollback = false
	if got := recorded(s); len(got) > 0 {
		t.Errorf("without autoRollback: %v", got)
	}
}

func stored(r *appsv1ac.ControllerRevisionApplyConfiguration) k8sappsv1.ControllerRevision {
	return k8sappsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Name: *r.Name, Annotations: r.Annotations}, Data: *r.Data,
	}
}

func TestLastGood(t *testing.T) {
	at := func(name string, seconds int64, data string) k8sappsv1.ControllerRevision {
		return k8sappsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, CreationTimestamp: metav1.NewTime(time.Unix(seconds, 0)), Annotations: map[string]string{annotationRevision: name},
			},
			Data: runtime.RawExtension{Raw: []byte(data)},
		}
	}
	records := []k8sappsv1.ControllerRevision{
		at("old", 1, `{"image":"a","template":{}}`), at("new", 2, `{"image":"b","template":{}}`), at("broken", 3, `nonsense`), at("foreign", 4, `{}`),
	}
	if got := lastGood(records); got == nil || got.hash != "new" || got.image != "b" {
		t.Errorf("%+v, want the newest that can be read", got)
	}
	if got := lastGood(nil); got != nil {
		t.Errorf("%+v out of nothing", got)
	}
}

func TestReadyRevision(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*k8sappsv1.Deployment)
		want   bool
	}{
		"complete":       {func(*k8sappsv1.Deployment) {}, true},
		"behind":         {func(d *k8sappsv1.Deployment) { d.Generation++ }, false},
		"old pods":       {func(d *k8sappsv1.Deployment) { d.Status.Replicas++ }, false},
		"not updated":    {func(d *k8sappsv1.Deployment) { d.Status.UpdatedReplicas-- }, false},
		"not available":  {func(d *k8sappsv1.Deployment) { d.Status.AvailableReplicas-- }, false},
		"none is wanted": {func(d *k8sappsv1.Deployment) { d.Spec.Replicas, d.Status.Replicas = new(int32), 0 }, false},
	} {
		d := newFixture(nil).seen.deployment
		c.change(d)
		if got := readyRevision(d); (got != "") != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := current([]corev1.Pod{{}}, newFixture(nil).seen.deployment); len(got) != 0 {
		t.Errorf("pods of another template count: %v", got)
	}
}

// A release that put a hash of the contents into the template left the Deployment of testdata/former.golden.yaml for testdata/everything.yaml.
func TestUpgrade_startsNoPods(t *testing.T) {
	c := readCase(t, "testdata/everything.yaml")
	raw, err := os.ReadFile("testdata/former.golden.yaml")
	if err != nil {
		t.Fatal(err)
	}
	former := &k8sappsv1.Deployment{}
	if err := yaml.Unmarshal(raw, former); err != nil {
		t.Fatal(err)
	}
	in := c.inputs()
	in.live = former.Spec.Template.Annotations
	templateOf := func() *corev1.PodTemplateSpec {
		p := desired(&c.App, in)
		return apply.Convert[corev1.PodTemplateSpec](deployment(&c.App, in, p).Spec.Template)
	}
	if diff := cmp.Diff(&former.Spec.Template, templateOf()); diff != "" {
		t.Errorf("the upgrade changes the pod template (-former +now):\n%s", diff)
	}

	// A template that failed before the upgrade is not tried again.
	failed := in.live[annotationRevision]
	in.live = map[string]string{rollout.FormerHashAnnotation: in.live[rollout.FormerHashAnnotation], annotationRevision: "the last good one"}
	c.App.Status.FailedRevision = failed
	if got := desired(&c.App, in).own.hash; got != failed {
		t.Errorf("what failed is revision %s, was %s", got, failed)
	}

	c.App.Status.FailedRevision, c.App.Spec.Image = "", "nginx:next"
	if now := templateOf(); now.Annotations[rollout.FormerHashAnnotation] != "" {
		t.Error("the hash stays in a template that changes")
	}
}
