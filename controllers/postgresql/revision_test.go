package postgresql

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"

	k8sappsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		"one": "cbd6e16783ceca42", "three": "85e7254661faf8b8", "everything": "c2391da2be1e3304", "copied": "cbd6e16783ceca42",
	} {
		if got := revisionOf(ofTestdata(t, name)); got != want {
			t.Errorf("%s: the revision is %s, want %s: an upgrade to this would restart its instances", name, got, want)
		}
	}
}

// TestRevisionIsOfThePod holds that an instance is replaced for a change of the spec if and only if its pod has to be another one.
func TestRevisionIsOfThePod(t *testing.T) {
	everything := ofTestdata(t, "everything")
	pod := func(pg *databasev1alpha1.PostgreSQL) string {
		raw, err := json.Marshal(podTemplate(pg, testAgent, 1))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	base := ofTestdata(t, "one")
	same := func(what string, pg *databasev1alpha1.PostgreSQL) (isSame bool) {
		isSame = pod(pg) == pod(base)
		if revised := revisionOf(pg) != revisionOf(base); revised == isSame {
			t.Errorf("%s: that the instances are replaced is %v, that their pods are the same is %v", what, revised, isSame)
		}
		return isSame
	}
	replaced := 0
	spec := reflect.TypeFor[databasev1alpha1.PostgreSQLSpec]()
	for i := range spec.NumField() {
		changed := base.DeepCopy()
		reflect.ValueOf(&changed.Spec).Elem().Field(i).Set(reflect.ValueOf(everything.Spec).Field(i))
		if !same(spec.Field(i).Name, changed) {
			replaced++
		}
	}
	if replaced < 10 {
		t.Errorf("only %d fields of the spec change the pod: testdata/everything.yaml does not set them all", replaced)
	}
	restarted := base.DeepCopy()
	restarted.Annotations = map[string]string{databasev1alpha1.AnnotationRestart: "now"}
	if same("the annotation that asks for a restart", restarted) {
		t.Error("the annotation that asks for a restart is not in the pod")
	}
}

// TestTemplateIsSeen holds that no pod is replaced before it would be made from the present template.
func TestTemplateIsSeen(t *testing.T) {
	set := func(revision string, generation, observed int64) *k8sappsv1.StatefulSet {
		set := &k8sappsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Generation: generation}}
		set.Spec.Template.Annotations = map[string]string{annotationRevision: revision, annotationAgentImage: "agent"}
		set.Status.ObservedGeneration = observed
		return set
	}
	formerAgent := set("new", 2, 2)
	formerAgent.Spec.Template.Annotations[annotationAgentImage] = "former"
	for name, c := range map[string]struct {
		set  *k8sappsv1.StatefulSet
		want bool
	}{
		"there is none":              {nil, false},
		"the template is an old one": {set("old", 1, 1), true},
		"the new one is not seen":    {set("new", 2, 1), true},
		"the new one is seen":        {set("new", 2, 2), false},
		"the agent is an old one":    {formerAgent, true},
	} {
		if got := templateNotObserved(c.set, podVersion{"new", "agent"}); got != c.want {
			t.Errorf("%s: unseen is %v", name, got)
		}
	}
	late := picture(3, "P R! R")
	late.templateNotObserved = true
	if got := said(wanting(3), late); got != "3 (Updating)" {
		t.Errorf("while the template is not seen: %s", got)
	}
	late = picture(3, "P? R R")
	late.templateNotObserved = true
	if got := said(wanting(3), late); got != "3 RequestSwitchover pg-1 (Switchover)" {
		t.Errorf("what needs no new pod, while the template is not seen: %s", got)
	}
}
