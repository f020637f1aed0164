package appconfig

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
)

// Each case has AppConfigs from the oldest to the newest, "name < sources"; a source is the name of an AppConfig or, with a "!", of a
// Secret of its target's name.
func TestCycleOf(t *testing.T) {
	for name, tc := range map[string]struct {
		configs []string
		want    map[string]string // of those in a circle: the way from each to itself
	}{
		"nothing":                  {[]string{"a <"}, nil},
		"objects of others":        {[]string{"a < other !other"}, nil},
		"a chain":                  {[]string{"a < other", "b < a", "c < b a"}, nil},
		"a chain, the newest last": {[]string{"c < b", "b < a", "a <"}, nil},
		"itself":                   {[]string{"a < other a"}, map[string]string{"a": "a a"}},
		"two":                      {[]string{"a < b", "b < a"}, map[string]string{"b": "b a b"}},
		"three":                    {[]string{"b < a", "a < c", "c < b"}, map[string]string{"c": "c b a c"}},
		"one that leads to two":    {[]string{"a < b", "b < a", "c < a"}, map[string]string{"b": "b a b"}},
		"two that share one":       {[]string{"a < b c", "b < a", "c < a"}, map[string]string{"b": "b a b", "c": "c a c"}},
		"a foreign Secret":         {[]string{"a < b", "b < !a"}, nil},
		"a published Secret":       {[]string{"a < !other b", "b < !a"}, map[string]string{"b": "b a b"}},
	} {
		all := map[string]*configv1.AppConfig{}
		for i, line := range tc.configs {
			own, sources, _ := strings.Cut(line, " <")
			all[own+"-config"] = config(func(cfg *configv1.AppConfig) {
				cfg.Name, cfg.Spec.Application = own, own
				cfg.CreationTimestamp = metav1.NewTime(time.Unix(int64(i), 0))
				for s := range strings.FieldsSeq(sources) {
					ref := &configv1.AppConfigObjectRef{Name: strings.TrimPrefix(s, "!") + "-config"}
					from := configv1.AppConfigValuesSource{ConfigMapRef: ref}
					if s[0] == '!' {
						from = configv1.AppConfigValuesSource{SecretRef: ref}
					}
					cfg.Spec.ValuesFrom = append(cfg.Spec.ValuesFrom, from)
				}
			})
		}
		for _, cfg := range all {
			got, err := cycleOf(cfg, func(target string) (*configv1.AppConfig, error) { return all[target], nil })
			if err != nil || strings.Join(got, " ") != tc.want[cfg.Name] {
				t.Errorf("%s: the circle of %s is %v, %v, want %q", name, cfg.Name, got, err, tc.want[cfg.Name])
			}
		}
	}
	broken := errors.New("no cache")
	cfg := config(func(cfg *configv1.AppConfig) {
		cfg.Spec.ValuesFrom = []configv1.AppConfigValuesSource{{ConfigMapRef: &configv1.AppConfigObjectRef{Name: "a"}}}
	})
	if _, err := cycleOf(cfg, func(string) (*configv1.AppConfig, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("the error of the cache is lost: %v", err)
	}
}

func TestThrottle(t *testing.T) {
	var limit throttle
	key, now := client.ObjectKey{Name: "shop"}, time.Unix(1e9, 0)
	admit := func(want int, what string) {
		t.Helper()
		got := 0
		for range 30 {
			if limit.allow(key, now) {
				got++
			}
		}
		if got != want || !limit.limited(key, now) {
			t.Errorf("%s: %d of 30 publications, want %d; held back: %t", what, got, want, limit.limited(key, now))
		}
	}
	if limit.limited(key, now) || !limit.allow(key, now) || limit.limited(key, now) {
		t.Error("the first publication is held back")
	}
	admit(publishBurst-1, "at once")
	now = now.Add(publishEvery - time.Millisecond)
	admit(0, "too soon")
	now = now.Add(time.Millisecond)
	admit(1, "when it is due")
	if !limit.allow(client.ObjectKey{Name: "other"}, now) {
		t.Error("another AppConfig is held back")
	}
	if now = now.Add(publishEvery); limit.limited(key, now) {
		t.Error("an AppConfig that has calmed down counts as one that changes too often")
	}
	limit.forget(key)
	admit(publishBurst, "one of the same name that is made later")
}
