package postgresql

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"

	"sigs.k8s.io/yaml"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
)

const testAgent = "ghcr.io/fettle-dev/fettle:v1"

func ofTestdata(t *testing.T, name string) *databasev1alpha1.PostgreSQL {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c testCase
	if err := yaml.UnmarshalStrict(raw, &c); err != nil {
		t.Fatal(err)
	}
	return &c.PG
}

// TestUpgradesRestartNothing holds the revisions that earlier releases made: what changes them restarts every database when the
// operator is upgraded.
func TestUpgradesRestartNothing(t *testing.T) {
	for name, want := range map[string]string{
		"one": "e5f15b59322b3eae", "three": "3743e7bf6c1f34ed", "everything": "1583014c16492076", "copied": "e5f15b59322b3eae",
	} {
		if got := revisionOf(ofTestdata(t, name), testAgent); got != want {
			t.Errorf("%s: the revision is %s, want %s: an upgrade to this would restart its instances", name, got, want)
		}
	}
}

// TestRevisionIsOfThePod holds that an instance is replaced for a change of the spec if and only if its pod has to be another one.
func TestRevisionIsOfThePod(t *testing.T) {
	everything := ofTestdata(t, "everything")
	pod := func(pg *databasev1alpha1.PostgreSQL, agent string) string {
		raw, err := json.Marshal(podTemplate(pg, agent))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	base := ofTestdata(t, "one")
	same := func(what string, pg *databasev1alpha1.PostgreSQL, agent string) (isSame bool) {
		isSame = pod(pg, agent) == pod(base, testAgent)
		if revised := revisionOf(pg, agent) != revisionOf(base, testAgent); revised == isSame {
			t.Errorf("%s: that the instances are replaced is %v, that their pods are the same is %v", what, revised, isSame)
		}
		return isSame
	}
	replaced := 0
	spec := reflect.TypeFor[databasev1alpha1.PostgreSQLSpec]()
	for i := range spec.NumField() {
		changed := base.DeepCopy()
		reflect.ValueOf(&changed.Spec).Elem().Field(i).Set(reflect.ValueOf(everything.Spec).Field(i))
		if !same(spec.Field(i).Name, changed, testAgent) {
			replaced++
		}
	}
	if replaced < 10 {
		t.Errorf("only %d fields of the spec change the pod: testdata/everything.yaml does not set them all", replaced)
	}
	if same("another agent", base, "ghcr.io/fettle-dev/fettle:v2") {
		t.Error("the image of the agent is not in the pod")
	}
	restarted := base.DeepCopy()
	restarted.Annotations = map[string]string{databasev1alpha1.AnnotationRestart: "now"}
	if same("the annotation that asks for a restart", restarted, testAgent) {
		t.Error("the annotation that asks for a restart is not in the pod")
	}
}
