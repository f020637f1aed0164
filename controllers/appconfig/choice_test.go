package appconfig

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/digest"
	"github.com/fettle-dev/fettle/internal/rollout"
)

// testKey is that of the digests in tests.
var testKey = digest.Key("key of the tests")

// rev is a kept revision whose hash and contents are named by a letter.
func rev(number int64, letter string) revision {
	return revision{
		content: content{data: map[string]string{"A": letter}}, hash: hashOf(letter), number: number,
		name: "shop-config-" + hashOf(letter)[:rollout.VersionDigits], complete: true,
	}
}

func hashOf(letter string) string { return strings.Repeat(letter, hashDigits) }

func outOf(letter string) rendered {
	return rendered{content: content{data: map[string]string{"A": letter}}, hash: hashOf(letter)}
}

func config(change ...func(*configv1.AppConfig)) *configv1.AppConfig {
	cfg := &configv1.AppConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop", UID: "u1"}}
	cfg.Spec.Application, cfg.Spec.Target.Mode = "shop", configv1.TargetInPlace
	for _, f := range change {
		f(cfg)
	}
	return cfg
}

func targeted(r revision, kept ...revision) existing {
	r.name, r.stamp = "shop-config", "2026-01-02T03:04:05Z"
	return existing{target: &r, kept: kept}
}

func TestChoose(t *testing.T) {
	a, b, c := rev(1, "a"), rev(2, "b"), rev(3, "c")
	history := targeted(c, c, b, a)
	problem := rendered{problem: new(conditions.False(configv1.ReasonTemplateError, "wrong"))}
	rollback := func(to int64) func(*configv1.AppConfig) {
		return func(cfg *configv1.AppConfig) { cfg.Spec.Rollback = &configv1.AppConfigRollback{ToRevision: to} }
	}
	good := func(n int64) func(*configv1.AppConfig) {
		return func(cfg *configv1.AppConfig) { cfg.Status.LastGoodRevision = n }
	}
	failed := func(letter string) func(*configv1.AppConfig) {
		return func(cfg *configv1.AppConfig) {
			cfg.Spec.Rollout.AutoRollback, cfg.Status.FailedHash = true, hashOf(letter)
		}
	}
	preview := func(cfg *configv1.AppConfig) { cfg.Spec.Preview = true }
	for _, tc := range []struct {
		name   string
		cfg    *configv1.AppConfig
		out    rendered
		found  existing
		letter string // "" for nothing
		number int64
		reason string
	}{
		{"first", config(), outOf("a"), existing{}, "a", 1, configv1.ReasonPublished},
		{"unchanged", config(), outOf("c"), history, "c", 3, configv1.ReasonPublished},
		{"changed", config(), outOf("d"), history, "d", 4, configv1.ReasonPublished},
		{"earlier contents again are a new revision", config(), outOf("a"), history, "a", 4, configv1.ReasonPublished},
		{"without copies", config(), outOf("d"), targeted(c), "d", 4, configv1.ReasonPublished},
		{"a problem at first", config(), problem, existing{}, "", 0, configv1.ReasonTemplateError},
		{"a problem later", config(), problem, history, "c", 3, configv1.ReasonTemplateError},
		{"a problem during a rollback", config(rollback(1)), problem, history, "a", 1, configv1.ReasonRolledBack},
		{"back to the last good one", config(rollback(0), good(1)), outOf("c"), history, "a", 1, configv1.ReasonRolledBack},
		{"back from a good one", config(rollback(0), good(3)), outOf("c"), history, "b", 2, configv1.ReasonRolledBack},
		{"back, and stay", config(rollback(0), good(2)), outOf("c"), targeted(b, c, b, a), "b", 2, configv1.ReasonRolledBack},
		{"back to a number", config(rollback(2)), outOf("c"), history, "b", 2, configv1.ReasonRolledBack},
		{"back to one that is gone", config(rollback(9)), outOf("c"), history, "c", 3, configv1.ReasonRevisionMissing},
		{"back to nothing", config(rollback(0)), outOf("a"), targeted(a, a), "a", 1, configv1.ReasonRevisionMissing},
		{"a failed rollout", config(failed("c"), good(2)), outOf("c"), history, "b", 2, configv1.ReasonRolledBack},
		{"something else after a failed rollout", config(failed("c"), good(2)), outOf("d"), history, "d", 4, configv1.ReasonPublished},
		{"a failed rollout with nothing before", config(failed("a")), outOf("a"), targeted(a, a), "a", 1, configv1.ReasonPublished},
		{"a preview", config(preview), outOf("d"), history, "c", 3, configv1.ReasonPreview},
		{"a preview of no change", config(preview), outOf("c"), history, "c", 3, configv1.ReasonPublished},
		{"a preview at first", config(preview), outOf("d"), existing{}, "", 0, configv1.ReasonPreview},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := choose(tc.cfg, tc.out, tc.found)
			if got.published.Reason != tc.reason {
				t.Errorf("Published is %v", got.published)
			}
			switch {
			case got.revision == nil && tc.letter == "":
			case got.revision == nil || tc.letter == "" || got.revision.hash != hashOf(tc.letter) || got.revision.number != tc.number:
				t.Errorf("publishes %+v, want %s with number %d", got.revision, tc.letter, tc.number)
			}
		})
	}
}

func TestChoose_rollbackNeedsTheSecret(t *testing.T) {
	incomplete := rev(1, "a")
	incomplete.withSecret, incomplete.complete = true, false
	found := targeted(rev(2, "b"), rev(2, "b"), incomplete)
	if r := found.lastGood(1, hashOf("b")); r != nil {
		t.Errorf("goes back to %+v", r)
	}
	if r := found.find(1); r != nil {
		t.Errorf("finds %+v", r)
	}
}

func TestLive_lastPublishedVersion(t *testing.T) {
	old, back := rev(2, "b"), rev(1, "a")
	old.stamp, back.stamp = "2026-01-02T03:04:05Z first", "2026-01-02T03:04:06Z"
	e := existing{kept: []revision{old, back}}
	if live := e.live(configv1.TargetVersioned); live.number != 1 {
		t.Errorf("live is %d", live.number)
	}
	back.stamp = "2026-01-02T03:04:05Z"
	if live := (existing{kept: []revision{back, old}}).live(configv1.TargetVersioned); live.number != 2 {
		t.Errorf("of the same second, live is %d", live.number)
	}
	if live := (existing{kept: []revision{rev(1, "a")}}).live(configv1.TargetVersioned); live != nil {
		t.Errorf("a copy that was never published is live: %+v", live)
	}
}

func TestSurplus(t *testing.T) {
	cfg := config(func(cfg *configv1.AppConfig) { cfg.Spec.Target.HistoryLimit = new(int32(1)) })
	found := targeted(rev(4, "d"), rev(4, "d"), rev(3, "c"), rev(2, "b"), rev(1, "a"))
	names := func(cfg *configv1.AppConfig, out rendered) []string {
		var names []string
		for _, r := range desired(cfg, choose(cfg, out, found), found, now).surplus {
			names = append(names, r.hash[:1])
		}
		return names
	}
	if diff := cmp.Diff([]string{"b", "a"}, names(cfg, outOf("d"))); diff != "" {
		t.Errorf("beyond the limit (-want +got):\n%s", diff)
	}
	cfg.Status.LastGoodRevision = 2
	if diff := cmp.Diff([]string{"a"}, names(cfg, outOf("d"))); diff != "" {
		t.Errorf("with an older good one (-want +got):\n%s", diff)
	}
	cfg.Spec.Target.HistoryLimit = new(int32(0))
	if diff := cmp.Diff([]string{"c", "b", "a"}, names(cfg, outOf("d"))); diff != "" {
		t.Errorf("without history (-want +got):\n%s", diff)
	}
}

// If the published objects have no copy, another client may have changed their contents: they are not adopted.
func TestChoose_ignoresDrift(t *testing.T) {
	cfg := config(func(cfg *configv1.AppConfig) { cfg.Spec.Target.HistoryLimit = new(int32(0)) })
	problem := rendered{problem: new(conditions.False(configv1.ReasonTemplateError, "wrong"))}
	found := targeted(rev(1, "a"))
	if p := desired(cfg, choose(cfg, problem, found), found, now); len(p.objects) != 0 || p.changes || !p.published[0].Exists {
		t.Errorf("%d objects, changes %v, published %+v", len(p.objects), p.changes, p.published)
	}
}

func TestFirstOf(t *testing.T) {
	rival := func(name string, second int64) configv1.AppConfig {
		return configv1.AppConfig{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.Unix(second, 0)}}
	}
	old, young := rival("b", 1), rival("a", 2)
	there := &corev1.ConfigMap{}
	if first := firstOf([]configv1.AppConfig{young, old}, there); first.Name != "b" {
		t.Errorf("the younger goes first")
	}
	there.OwnerReferences = []metav1.OwnerReference{{UID: "a", Controller: new(true)}}
	if first := firstOf([]configv1.AppConfig{old, young}, there); first.Name != "a" {
		t.Errorf("the one that has published does not go first")
	}
	if first := firstOf([]configv1.AppConfig{rival("d", 1), rival("c", 1)}, &corev1.ConfigMap{}); first.Name != "c" {
		t.Errorf("of the same age, %s goes first", first.Name)
	}
	published := rival("z", 9)
	published.Status.Revision = 7
	if first := firstOf([]configv1.AppConfig{old, published, young}, &corev1.ConfigMap{}); first.Name != "z" {
		t.Errorf("one that has published versions does not go first, but %s", first.Name)
	}
	if firstOf(nil, there) != nil {
		t.Error("one of none")
	}
}
