package webapp

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
)

func state(kind, name string, found bool) refState {
	return refState{ref: appsv1.ConfigRef{Kind: kind, Name: name}, found: found}
}

func TestDigestsOf_distinguishAndHideValues(t *testing.T) {
	cm := &corev1.ConfigMap{Data: map[string]string{"a": "1", "b": "2"}, BinaryData: map[string][]byte{"c": {3}}}
	labelled := cm.DeepCopy()
	labelled.Labels = map[string]string{"x": "y"}
	if diff := cmp.Diff(digestsOf(cm), digestsOf(labelled)); diff != "" {
		t.Errorf("labels count:\n%s", diff)
	}
	got := digestsOf(&corev1.Secret{Data: map[string][]byte{"a": []byte("hunter2"), "b": []byte("hunter2"), "c": []byte("hunter3")}})
	if len(got) != 3 || string(got["a"]) != string(got["b"]) || string(got["a"]) == string(got["c"]) {
		t.Errorf("digests %v do not tell the values apart", got)
	}
	if strings.Contains(string(got["a"]), "hunter2") || len(got["a"]) != 32 {
		t.Errorf("the memory has the value %q", got["a"])
	}
}

func TestConfigMissing(t *testing.T) {
	optional := state(kindSecret, "a", false)
	optional.ref.Optional = true
	if got := configMissing([]refState{optional, state(kindConfigMap, "b", true)}); got != nil {
		t.Errorf("%v is waited for", got)
	}
	if got := configMissing([]refState{optional, state(kindConfigMap, "b", false)}); got == nil || got.Name != "b" {
		t.Errorf("%v is waited for, want b", got)
	}
}

func TestPublishers(t *testing.T) {
	published := func(kind, name, by string) refState {
		return refState{ref: appsv1.ConfigRef{Kind: kind, Name: name}, found: true, publisher: by}
	}
	got := publishers([]refState{
		published(kindAppConfig, "shop", "shop"), state(kindConfigMap, "plain", true), published(kindConfigMap, "pay-config", "pay"),
		published(kindSecret, "shop-config", "shop"), published(kindConfigMap, "vote-config", "VoteConfig/vote"),
	})
	if got != "VoteConfig/vote,pay,shop" {
		t.Errorf("uses %q", got)
	}
	if got := publishers([]refState{state(kindConfigMap, "plain", true)}); got != "" {
		t.Errorf("a plain ConfigMap is published by %q", got)
	}
}

func TestPublisherOf(t *testing.T) {
	owned := func(apiVersion, kind string, controller bool) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{
			{APIVersion: apiVersion, Kind: kind, Name: "shop", Controller: &controller},
		}}}
	}
	for _, tc := range []struct {
		cm   *corev1.ConfigMap
		want string
	}{
		{owned("config.fettle.dev/v1", "AppConfig", true), "shop"},
		{owned("config.fettle.dev/v1", "AppConfig", false), ""},
		{owned("config.example.com/v1", "AppConfig", true), ""},
		{owned("voting.fettle.dev/v1alpha1", "VoteConfig", true), "VoteConfig/shop"},
		{&corev1.ConfigMap{}, ""},
	} {
		if got := publisherOf(tc.cm); got != tc.want {
			t.Errorf("%v: published by %q", tc.cm.OwnerReferences, got)
		}
	}
}

// TestObjectOf_deletedMeanwhile: an object that is gone, and that the cache still has, restarts no pods that need it.
func TestObjectOf_deletedMeanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		cached        string
		found         contents
		known, exists bool
	}{
		"there":                      {"u/1", contents{version: "u/1"}, true, true},
		"changed meanwhile":          {"u/1", contents{version: "u/2"}, true, true},
		"deleted, the cache behind":  {"u/1", contents{}, false, false},
		"deleted":                    {"", contents{}, true, false},
		"published, by another kind": {"u/1", contents{version: "u/2", publisher: "settings"}, false, false},
	} {
		o := objectOf(kindConfigMap, "settings", c.cached, c.found)
		if (o != nil) != c.known || o != nil && o.Exists != c.exists {
			t.Errorf("%s: %+v", name, o)
		}
	}
}
