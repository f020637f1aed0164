package webapp

import (
	"testing"

	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"

	"github.com/fettle-dev/fettle/internal/testenv/golden"
)

// releasedRevisions are the revisions that the versions of the pod template gave to testdata/*.yaml, the newest first. Never change one: a
// pod template that must change is a new version in templateVersions.
var releasedRevisions = map[string][]string{
	"minimal":          {"c95021be9c68e10a", "64b488ade0ffb67d"},
	"everything":       {"9037847b4018909f", "9c443ed5c14f7368"},
	"restricted":       {"85523baa5ac5eed9", "96e52af8ccaf811d"},
	"single":           {"fde122fbf8d31e11", "73698d304f770cd4"},
	"no-optional-apis": {"05b09e7a4e0480b5", "5a3d2da8f1170ffb"},
}

// An upgrade of the operator changes no pod template, whichever release made it, until the spec asks for another one.
func TestUpgrade_restartsNothing(t *testing.T) {
	for name, released := range releasedRevisions {
		c := golden.Read[testCase](t, "testdata/"+name+".yaml")
		in := c.inputs()
		if got := desired(&c.App, in).running.hash; got != released[0] {
			t.Errorf("%s: a new WebApp has revision %s, want %s: add a version to templateVersions", name, got, released[0])
		}
		for version, hash := range released {
			in.live = map[string]string{annotationRevision: hash}
			p := desired(&c.App, in)
			live := p.objects[0].(*appsv1ac.DeploymentApplyConfiguration).Spec.Template.Annotations[annotationRevision]
			if live != hash || p.running.hash != hash {
				t.Errorf("%s: the upgrade from version %d of the pod template changes revision %s to %s", name, version, hash, live)
			}
			failed := c.App.DeepCopy()
			failed.Status.FailedRevision, in.live = hash, map[string]string{annotationRevision: "the last good one"}
			if got := desired(failed, in).own.hash; got != hash {
				t.Errorf("%s: the upgrade retries the failed revision %s as %s", name, hash, got)
			}
			changed := c.App.DeepCopy()
			changed.Spec.Image, in.live = "nginx:next", map[string]string{annotationRevision: hash}
			if got, want := desired(changed, in).own.hash, canonicalRevision(changed, in).hash; got != want {
				t.Errorf("%s: another image has revision %s, want the newest version %s", name, got, want)
			}
		}
	}
}
