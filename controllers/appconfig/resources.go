package appconfig

import (
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	"github.com/fettle-dev/fettle/internal/reconciler"
	"github.com/fettle-dev/fettle/internal/rollout"
)

// Labels and annotations of the published objects.
const (
	ownerKind = "AppConfig"

	labelManagedBy  = "app.kubernetes.io/managed-by"
	managedByFettle = "fettle"
	// labelRevision is on the immutable copies: the first digits of their hash.
	labelRevision = "config.fettle.dev/revision-hash"
	// annotationHash is the hash of the contents, of ConfigMap and Secret together.
	annotationHash = "config.fettle.dev/hash"
	// annotationRevision is the number of the revision.
	annotationRevision = "config.fettle.dev/revision"
	// annotationInputs identifies the inputs of the contents. A restarted operator need not read them again.
	annotationInputs = "config.fettle.dev/rendered-from"
	// annotationSecret, on the ConfigMap, is present if a Secret of the same name belongs to it.
	annotationSecret = "config.fettle.dev/with-secret"
)

// plan is the desired state.
type plan struct {
	choice
	objects []runtime.ApplyConfiguration
	// surplus are revisions beyond the history limit. They are deleted if nothing uses them.
	surplus []revision
	// dropSecret is true if the target no longer has a Secret.
	dropSecret bool
	// published are the objects that workloads refer to, in the state in which objects are applied.
	published []rollout.Object
	// changes is true if the objects that workloads refer to will change.
	changes bool
}

// targetName is the name to which users refer.
func targetName(cfg *configv1.AppConfig) string {
	if cfg.Spec.Target.Name != "" {
		return cfg.Spec.Target.Name
	}
	return cfg.Spec.Application + "-config"
}

// copyName is the name of the immutable copies of a revision.
func copyName(cfg *configv1.AppConfig, hash string) string {
	return rollout.VersionName(targetName(cfg), hash)
}

func versioned(cfg *configv1.AppConfig) bool { return cfg.Spec.Target.Mode == configv1.TargetVersioned }

func historyLimit(cfg *configv1.AppConfig) int {
	if cfg.Spec.Target.HistoryLimit == nil {
		return 5
	}
	return int(*cfg.Spec.Target.HistoryLimit)
}

// desired returns the objects to publish for c at the time now, in the order in which they are applied: first the history, then what
// workloads read. Published objects without a copy stay as they are if nothing else is to be published.
func desired(cfg *configv1.AppConfig, c choice, found existing, now time.Time) plan {
	p := plan{choice: c}
	live := found.live(cfg.Spec.Target.Mode)
	if c.revision == nil || cfg.Spec.Preview || (!c.fresh && found.copyOf(c.revision) == nil) {
		p.published = objectsOf(cfg, live, found)
		return p
	}
	r := *c.revision
	p.changes = live == nil || live.hash != r.hash || !same(live.content, r.content)
	stamped(&r, live, live != nil || cfg.Status.Revision > 0, now)
	if versioned(cfg) {
		p.objects = published(cfg, r, copyName(cfg, r.hash), true)
		r.name = copyName(cfg, r.hash)
	} else {
		if c.fresh && historyLimit(cfg) > 0 {
			p.objects = published(cfg, kept(r), copyName(cfg, r.hash), true)
		}
		p.objects = append(p.objects, published(cfg, r, targetName(cfg), false)...)
		p.dropSecret = !r.withSecret
		r.name = targetName(cfg)
	}
	p.published = objectsOf(cfg, &r, found)
	p.surplus = found.surplus(historyLimit(cfg), keeps(cfg, found, r))
	return p
}

// stamped sets in r since when each half of it is published, in place of live; nil if nothing is. existed says whether anything was
// published.
func stamped(r *revision, live *revision, existed bool, now time.Time) {
	was := revision{}
	if live != nil {
		was = *live
	}
	r.stamp, r.secretStamp = rollout.PublishedAt(was.stamp, existed, !maps.Equal(was.data, r.data), now), ""
	if r.withSecret = len(r.secret) > 0; r.withSecret {
		r.secretStamp = rollout.PublishedAt(was.secretStamp, len(was.secret) > 0, !maps.Equal(was.secret, r.secret), now)
	}
}

// keeps are the copies that do not count for the history limit: the published one, and the target of a rollback.
func keeps(cfg *configv1.AppConfig, found existing, r revision) map[string]bool {
	keep := map[string]bool{copyName(cfg, r.hash): true}
	if historyLimit(cfg) == 0 {
		return keep
	}
	if good := found.find(cfg.Status.LastGoodRevision); good != nil {
		keep[good.name] = true
	}
	return keep
}

// kept is r without the attributes of published objects.
func kept(r revision) revision {
	r.stamp, r.secretStamp = "", ""
	return r
}

// published returns the Secret, if there is one, and the ConfigMap of a revision. The ConfigMap comes last: it marks the Secret as
// complete.
func published(cfg *configv1.AppConfig, r revision, name string, immutable bool) []runtime.ApplyConfiguration {
	var objects []runtime.ApplyConfiguration
	if r.withSecret {
		secret := corev1ac.Secret(name, cfg.Namespace).
			WithLabels(labels(cfg, r, immutable)).
			WithAnnotations(annotations(cfg, r, r.secretStamp)).
			WithType(corev1.SecretTypeOpaque).
			WithData(bytesOf(r.secret))
		if immutable {
			secret.WithImmutable(true)
		}
		objects = append(objects, secret)
	}
	cm := corev1ac.ConfigMap(name, cfg.Namespace).
		WithLabels(labels(cfg, r, immutable)).
		WithAnnotations(annotations(cfg, r, r.stamp)).
		WithData(r.data)
	if r.withSecret {
		cm.WithAnnotations(map[string]string{annotationSecret: "true"})
	}
	if immutable {
		cm.WithImmutable(true)
	}
	return append(objects, cm)
}

func labels(cfg *configv1.AppConfig, r revision, immutable bool) map[string]string {
	l := maps.Clone(cfg.Spec.Target.Labels)
	if l == nil {
		l = map[string]string{}
	}
	maps.Copy(l, reconciler.Labels(ownerKind, cfg.Name, "config"))
	l["app.kubernetes.io/name"] = cfg.Spec.Application
	if immutable {
		l[labelRevision] = r.hash[:min(rollout.VersionDigits, len(r.hash))]
	}
	return l
}

func annotations(cfg *configv1.AppConfig, r revision, stamp string) map[string]string {
	a := maps.Clone(cfg.Spec.Target.Annotations)
	if a == nil {
		a = map[string]string{}
	}
	a[annotationHash] = r.hash
	a[annotationRevision] = strconv.FormatInt(r.number, 10)
	if r.inputs != "" {
		a[annotationInputs] = r.inputs
	}
	if stamp != "" {
		a[rollout.PublishedAnnotation] = stamp
	}
	return a
}

func bytesOf(m map[string]string) map[string][]byte {
	out := make(map[string][]byte, len(m))
	for k, v := range m {
		out[k] = []byte(v)
	}
	return out
}

// objectsOf returns the published objects for the rollout engine: r, or nothing if r is nil.
func objectsOf(cfg *configv1.AppConfig, r *revision, found existing) []rollout.Object {
	cm := rollout.Object{Kind: rollout.ConfigMap, Target: targetName(cfg), Versioned: versioned(cfg), Name: targetName(cfg)}
	secret := cm
	secret.Kind = rollout.Secret
	for _, k := range found.kept {
		if !versioned(cfg) {
			break
		}
		cm.Versions = append(cm.Versions, k.name)
		if len(k.secret) > 0 {
			secret.Versions = append(secret.Versions, k.name)
		}
	}
	if r == nil {
		return []rollout.Object{cm, secret}
	}
	cm.Name, cm.Exists, cm.Data, cm.PublishedAt, cm.ForeignEdit = r.name, true, bytesOf(r.data), r.stamp, r.edited
	secret.Name = r.name
	if len(r.secret) > 0 {
		secret.Exists, secret.Data, secret.PublishedAt, secret.ForeignEdit = true, bytesOf(r.secret), r.secretStamp, r.secretEdited
	}
	for _, o := range []*rollout.Object{&cm, &secret} {
		if versioned(cfg) && o.Exists && !slices.Contains(o.Versions, o.Name) {
			o.Versions = append(o.Versions, o.Name)
		}
	}
	return []rollout.Object{cm, secret}
}
