package webapp

import (
	"context"
	"fmt"
	"time"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
)

const (
	// digestsKept bounds the memory of digests; one that was dropped is read again.
	digestsKept = 10_000
	// secretResync is how often Secrets are read again where they are not watched.
	secretResync = 10 * time.Minute
)

// configReader finds out what spec.configRefs name. It reads the contents of an object only when the object's version
// is one that neither it nor the Deployment remembers.
type configReader struct {
	cached       client.Reader
	live         client.Reader
	watchSecrets bool
	digests      *lru.Cache
}

type digested struct {
	seenConfig
	at time.Time
}

func newConfigReader(mgr ctrl.Manager, watchSecrets bool) *configReader {
	return &configReader{
		cached:       mgr.GetClient(),
		live:         mgr.GetAPIReader(),
		watchSecrets: watchSecrets,
		digests:      lru.New(digestsKept),
	}
}

// resync is when to look again at what is not watched; 0 when all of it is.
func (c *configReader) resync(app *appsv1.WebApp) time.Duration {
	if !c.watchSecrets {
		for _, ref := range app.Spec.ConfigRefs {
			if ref.Kind == kindSecret {
				return secretResync
			}
		}
	}
	return 0
}

// read returns the state of each reference, in the order of the spec.
func (c *configReader) read(ctx context.Context, app *appsv1.WebApp, d *k8sappsv1.Deployment) ([]configState, error) {
	var remembered map[string]seenConfig
	if d != nil {
		remembered = rememberedConfig(d.Annotations[annotationConfigSeen])
	}
	var states []configState
	for _, ref := range app.Spec.ConfigRefs {
		key := client.ObjectKey{Namespace: app.Namespace, Name: ref.Name}
		if s, known, err := c.published(ctx, key, ref); err != nil {
			return nil, err
		} else if known {
			states = append(states, s)
			continue
		}
		was := remembered[refKey(ref)]
		now, err := c.find(ctx, key, ref.Kind, was)
		if err != nil {
			return nil, err
		}
		if now.publisher != "" {
			states = append(states, configState{ref: ref, found: true, appConfig: now.publisher})
			continue
		}
		if now.Digest == was.Digest {
			now.Version = was.Version // a change of labels only is not worth a write
		}
		states = append(states, configState{ref: ref, found: now.found, version: now.Version, digest: now.Digest})
	}
	return states, nil
}

func (c *configReader) find(ctx context.Context, key client.ObjectKey, kind string, was seenConfig) (sight, error) {
	id := kind + "/" + key.String()
	last, _ := c.digests.Get(id)
	known, _ := last.(digested)
	if kind == kindSecret && !c.watchSecrets {
		if known.Version != "" && time.Since(known.at) < secretResync {
			return sight{seenConfig: known.seenConfig, found: true}, nil
		}
		return c.readLive(ctx, id, key, kind)
	}
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	if err := c.cached.Get(ctx, key, meta); apierrors.IsNotFound(err) {
		return sight{}, nil
	} else if err != nil {
		return sight{}, fmt.Errorf("look for %s %q: %w", kind, key.Name, err)
	}
	for _, s := range []seenConfig{known.seenConfig, was} {
		if s.Version == version(meta) {
			return sight{seenConfig: s, found: true}, nil
		}
	}
	return c.readLive(ctx, id, key, kind)
}

func (c *configReader) readLive(ctx context.Context, id string, key client.ObjectKey, kind string) (sight, error) {
	var obj client.Object = &corev1.ConfigMap{}
	if kind == kindSecret {
		obj = &corev1.Secret{}
	}
	if err := c.live.Get(ctx, key, obj); apierrors.IsNotFound(err) {
		return sight{}, nil
	} else if err != nil {
		return sight{}, fmt.Errorf("read %s %q: %w", kind, key.Name, err)
	}
	if by := publisherOf(obj); by != "" {
		return sight{found: true, publisher: by}, nil // the cache of Fettle's own objects does not show it yet
	}
	seen := seenConfig{Version: version(obj)}
	switch o := obj.(type) {
	case *corev1.ConfigMap:
		seen.Digest = digestConfigMap(o)
	case *corev1.Secret:
		var err error
		if seen.Digest, err = digestSecret(o); err != nil {
			return sight{}, err
		}
	}
	c.digests.Add(id, digested{seenConfig: seen, at: time.Now()})
	return sight{seenConfig: seen, found: true}, nil
}

func version(o metav1.Object) string { return string(o.GetUID()) + "/" + o.GetResourceVersion() }
