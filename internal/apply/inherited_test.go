package apply

import (
	"maps"
	"testing"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
)

// Inherited labels and annotations reach children of every kind, below the child's own, and do not decide whether a child is an orphan.
func TestRender_inherits(t *testing.T) {
	o := testOwner()
	o.inherited = &fettlev1.InheritedMetadata{
		Labels:      map[string]string{"app": "other", "app.kubernetes.io/part-of": "shop"},
		Annotations: map[string]string{"example.com/cost-center": "7", "own": "no"},
	}
	typed := corev1ac.ConfigMap("web", testNamespace).WithLabels(testLabels()).WithAnnotations(map[string]string{"own": "yes"})
	for _, d := range []*desiredObject{
		mustRender(t, typed, o), mustRender(t, client.ApplyConfigurationFromUnstructured(route(testNamespace)), o),
	} {
		metadata := d.content["metadata"].(map[string]any)
		labels, annotations := metadata["labels"].(map[string]any), metadata["annotations"].(map[string]any)
		if labels["app"] != "web" || labels["app.kubernetes.io/part-of"] != "shop" || annotations["example.com/cost-center"] != "7" {
			t.Errorf("%s has the labels %v and the annotations %v", d.gvk.Kind, labels, annotations)
		}
		if d.gvk.Kind == "ConfigMap" && annotations["own"] != "yes" {
			t.Errorf("its own annotation is %v", annotations["own"])
		}
		if !maps.Equal(d.own, testLabels()) {
			t.Errorf("%s is an orphan by the labels %v", d.gvk.Kind, d.own)
		}
	}
	if mustRender(t, typed, testOwner()).hash == mustRender(t, typed, o).hash {
		t.Error("inherited metadata do not change the hash")
	}
}
