package webapp

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
)

func state(kind, name, digest string) configState {
	return configState{ref: appsv1.ConfigRef{Kind: kind, Name: name}, found: digest != "", version: "uid/1", digest: digest}
}

func TestConfigHash(t *testing.T) {
	a, b := state(kindConfigMap, "a", "1"), state(kindSecret, "b", "2")
	if configHash(nil) != "" {
		t.Error("nothing has a hash")
	}
	if configHash([]configState{a, b}) != configHash([]configState{b, a}) {
		t.Error("the order of references counts")
	}
	newer := a
	newer.version = "uid/2"
	if configHash([]configState{a}) != configHash([]configState{newer}) {
		t.Error("a version counts whose contents are the same")
	}
	for _, other := range []configState{state(kindConfigMap, "a", "2"), state(kindSecret, "a", "1"), state(kindConfigMap, "c", "1")} {
		if configHash([]configState{a}) == configHash([]configState{other}) {
			t.Errorf("%v and %v have one hash", a, other)
		}
	}
}

func TestConfigSeen(t *testing.T) {
	states := []configState{state(kindConfigMap, "a", "1"), state(kindSecret, "missing", "")}
	want := map[string]seenConfig{"ConfigMap/a": {Version: "uid/1", Digest: "1"}}
	if diff := cmp.Diff(want, rememberedConfig(configSeen(states))); diff != "" {
		t.Errorf("what is remembered (-want +got):\n%s", diff)
	}
	if configSeen(states[1:]) != "" || rememberedConfig("nonsense") != nil || rememberedConfig("") != nil {
		t.Error("nothing is remembered as something")
	}
}

func TestDigests(t *testing.T) {
	base := func() *corev1.ConfigMap {
		return &corev1.ConfigMap{Data: map[string]string{"a": "1", "b": "2"}, BinaryData: map[string][]byte{"c": {3}}}
	}
	labelled := base()
	labelled.Labels = map[string]string{"x": "y"}
	if digestConfigMap(base()) != digestConfigMap(labelled) {
		t.Error("labels count")
	}
	for name, cm := range map[string]*corev1.ConfigMap{
		"value":        {Data: map[string]string{"a": "1", "b": "3"}, BinaryData: map[string][]byte{"c": {3}}},
		"key":          {Data: map[string]string{"a": "1", "d": "2"}, BinaryData: map[string][]byte{"c": {3}}},
		"binary":       {Data: map[string]string{"a": "1", "b": "2"}, BinaryData: map[string][]byte{"c": {4}}},
		"boundaries":   {Data: map[string]string{"a": "1b2", "b": ""}, BinaryData: map[string][]byte{"c": {3}}},
		"binary, text": {Data: map[string]string{"a": "1", "b": "2", "c": "\x03"}},
	} {
		if digestConfigMap(base()) == digestConfigMap(cm) {
			t.Errorf("another %s has the same digest", name)
		}
	}
	one, err := digestSecret(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{UID: "1"}, Data: map[string][]byte{"password": []byte("hunter2")}})
	if err != nil {
		t.Fatal(err)
	}
	other, err := digestSecret(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{UID: "2"}, Data: map[string][]byte{"password": []byte("hunter2")}})
	if err != nil {
		t.Fatal(err)
	}
	if one == other || len(one) != digestDigits || strings.Contains(one, "hunter2") {
		t.Errorf("digests %s and %s: two Secrets of the same contents must not be seen to be", one, other)
	}
}

func TestConfigMissing(t *testing.T) {
	optional := state(kindSecret, "a", "")
	optional.ref.Optional = true
	if got := configMissing([]configState{optional, state(kindConfigMap, "b", "1")}); got != nil {
		t.Errorf("%v is waited for", got)
	}
	if got := configMissing([]configState{optional, state(kindConfigMap, "b", "")}); got == nil || got.Name != "b" {
		t.Errorf("%v is waited for, want b", got)
	}
}
