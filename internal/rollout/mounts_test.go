package rollout

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// reducedDeployment is the cached form of a Deployment with that pod spec.
func reducedDeployment(t *testing.T, podSpec string) *Workload {
	t.Helper()
	d := &k8sappsv1.Deployment{}
	if err := yaml.UnmarshalStrict([]byte(podSpec), &d.Spec.Template.Spec); err != nil {
		t.Fatal(err)
	}
	var obj any = d
	for range 2 { // the cache may transform an object twice
		var err error
		if obj, err = trimWorkload(obj); err != nil {
			t.Fatal(err)
		}
	}
	w, err := workloadOf(obj.(*k8sappsv1.Deployment))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestMountedReferences(t *testing.T) {
	for name, tc := range map[string]struct {
		pod  string
		want []Reference
	}{
		"a volume": {`{volumes: [{name: v, configMap: {name: c}}], containers: [{name: a, volumeMounts: [{name: v, mountPath: /v}]}]}`,
			[]Reference{{Kind: ConfigMap, Name: "c", Mounted: true}}},
		"an environment": {`{containers: [{name: a, envFrom: [{configMapRef: {name: c}}]}]}`, []Reference{{Kind: ConfigMap, Name: "c"}}},
		"both": {`{volumes: [{name: v, configMap: {name: c}}], containers: [{name: a, envFrom: [{configMapRef: {name: c, optional: true}}]}]}`,
			[]Reference{{Kind: ConfigMap, Name: "c"}}},
		"different keys": {`{volumes: [{name: v, configMap: {name: c, items: [{key: k1, path: p}], optional: true}}],
			containers: [{name: a, env: [{name: Y, valueFrom: {configMapKeyRef: {name: c, key: k2}}}]}]}`,
			[]Reference{{Kind: ConfigMap, Name: "c", Key: "k1", Optional: true, Mounted: true}, {Kind: ConfigMap, Name: "c", Key: "k2"}}},
		"a subPath of a volume": {`{volumes: [{name: v, configMap: {name: c}}], containers: [{name: a, volumeMounts: [{name: v, mountPath: /x, subPath: x}]}]}`,
			[]Reference{{Kind: ConfigMap, Name: "c"}}},
		"one of two volumes by a subPath": {`{volumes: [{name: v, configMap: {name: c}}, {name: w, projected: {sources: [{secret: {name: s}}]}}],
			initContainers: [{name: i, volumeMounts: [{name: v, mountPath: /x, subPathExpr: $(X)}, {name: w, mountPath: /w}]}], containers: [{name: a}]}`,
			[]Reference{{Kind: ConfigMap, Name: "c"}, {Kind: Secret, Name: "s", Mounted: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, reducedDeployment(t, tc.pod).References); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWithoutMounts(t *testing.T) {
	w := &Workload{Name: "w", References: []Reference{{Kind: ConfigMap, Name: "c", Mounted: true}, {Kind: ConfigMap, Name: "d"}}}
	if diff := cmp.Diff([]Reference{{Kind: ConfigMap, Name: "d"}}, w.withoutMounts().References); diff != "" || len(w.References) != 2 {
		t.Errorf("left %v (-want +got):\n%s", w.References, diff)
	}
	objects := []Object{{Kind: ConfigMap, Target: "c", Name: "c"}}
	if !w.refersTo(objects) || w.withoutMounts().refersTo(objects) {
		t.Error("a mount counts as a reference unless mounts are ignored")
	}
}

func TestImages(t *testing.T) {
	w := reducedDeployment(t, `{initContainers: [{name: i, image: busybox}], containers: [{name: a, image: vote:v1, envFrom: [{secretRef: {name: s}}]}, {name: b, image: busybox}]}`)
	if diff := cmp.Diff([]string{"busybox", "vote:v1"}, w.Images); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if w := reducedDeployment(t, `{containers: [{name: a, image: vote:v1}]}`); w.Images != nil {
		t.Errorf("a workload without references takes memory for %v", w.Images)
	}
	if images := imagesOf(&corev1.PodSpec{}); images != nil {
		t.Errorf("without containers: %v", images)
	}
}
