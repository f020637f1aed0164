package webapp

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	votingv1alpha1 "github.com/fettle-dev/fettle/api/voting/v1alpha1"
	"github.com/fettle-dev/fettle/internal/rollout"
)

const (
	kindConfigMap  = rollout.ConfigMap
	kindSecret     = rollout.Secret
	kindAppConfig  = "AppConfig"
	kindVoteConfig = "VoteConfig"

	// contentsKept limits the number of cached contents. Evicted ones are read again.
	contentsKept = 10_000
	// secretResync is the interval at which unwatched Secrets are read again.
	secretResync = 10 * time.Minute
)

// refState is the observed state of one entry of spec.configRefs.
type refState struct {
	ref   appsv1.ConfigRef
	found bool
	// publisher is the AppConfig or VoteConfig that it is or that publishes it, as in rollout.UsesAnnotation. Its rollout restarts
	// the pods. Empty for a plain ConfigMap or Secret.
	publisher string
	// version is the UID and resourceVersion of a plain ConfigMap or Secret.
	version string
}

func refKey(ref appsv1.ConfigRef) string { return ref.Kind + "/" + ref.Name }

// configMissing returns the first required reference whose object does not exist.
func configMissing(config []refState) *appsv1.ConfigRef {
	for i := range config {
		if !config[i].found && !config[i].ref.Optional {
			return &config[i].ref
		}
	}
	return nil
}

// publishers returns the publishers of all references, sorted and separated by commas.
func publishers(config []refState) string {
	var names []string
	for _, c := range config {
		if c.publisher != "" {
			names = append(names, c.publisher)
		}
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ",")
}

// createdWith returns the versions of plain ConfigMaps and Secrets for rollout.CreatedWithAnnotation.
func createdWith(config []refState) string {
	var entries []string
	for _, c := range config {
		if c.found && c.publisher == "" {
			entries = append(entries, refKey(c.ref)+"="+c.version)
		}
	}
	return strings.Join(entries, ",")
}

// publisherOf returns the AppConfig or VoteConfig that controls obj, as in rollout.UsesAnnotation; "" if there is none.
func publisherOf(obj metav1.Object) string {
	ref := metav1.GetControllerOfNoCopy(obj)
	switch {
	case ref == nil:
		return ""
	case ref.Kind == kindAppConfig && ref.APIVersion == configv1.GroupVersion.String():
		return ref.Name
	case ref.Kind == kindVoteConfig && ref.APIVersion == votingv1alpha1.GroupVersion.String():
		return kindVoteConfig + "/" + ref.Name
	default:
		return ""
	}
}

// configReader reads the objects of spec.configRefs. It reads contents only when a caller needs those of a version that is not
// cached.
type configReader struct {
	cached       client.Reader
	live         client.Reader
	watchSecrets bool
	contents     *lru.Cache
}

// contents is the cached state of an object. Of its values it has only digests.
type contents struct {
	// version is its UID and resourceVersion; "" if it does not exist.
	version   string
	publisher string
	values    map[string][]byte
	// readAt is the time of the read, changedAt the time when it had different values than before; zero if no earlier values are
	// known.
	readAt, changedAt time.Time
}

func newConfigReader(mgr ctrl.Manager, watchSecrets bool) *configReader {
	return &configReader{cached: mgr.GetClient(), live: mgr.GetAPIReader(), watchSecrets: watchSecrets, contents: lru.New(contentsKept)}
}

// resync returns when to read unwatched objects again; 0 if all are watched.
func (c *configReader) resync(app *appsv1.WebApp) time.Duration {
	if !c.watchSecrets && slices.ContainsFunc(app.Spec.ConfigRefs, func(ref appsv1.ConfigRef) bool { return ref.Kind == kindSecret }) {
		return secretResync
	}
	return 0
}

// read returns the state of each reference, in the order of the spec.
func (c *configReader) read(ctx context.Context, app *appsv1.WebApp) ([]refState, error) {
	var states []refState
	for _, ref := range app.Spec.ConfigRefs {
		key := client.ObjectKey{Namespace: app.Namespace, Name: ref.Name}
		s := refState{ref: ref}
		if ref.Kind == kindAppConfig {
			cfg := &configv1.AppConfig{}
			if err := c.cached.Get(ctx, key, cfg); client.IgnoreNotFound(err) != nil {
				return nil, fmt.Errorf("get AppConfig %q: %w", key.Name, err)
			}
			s.found, s.publisher = cfg.Status.ConfigMapName != "", ref.Name
		} else {
			version, publisher, err := c.find(ctx, ref.Kind, key)
			if err != nil {
				return nil, err
			}
			s.found, s.publisher, s.version = version != "", publisher, version
		}
		states = append(states, s)
	}
	return states, nil
}

// find returns the version of a ConfigMap or Secret, "" if it does not exist, and its publisher.
func (c *configReader) find(ctx context.Context, kind string, key client.ObjectKey) (version, publisher string, err error) {
	if kind == kindSecret && !c.watchSecrets {
		known, err := c.unwatched(ctx, key)
		return known.version, known.publisher, err
	}
	own := emptyObject(kind) // the cache of contents holds Fettle's own
	if err := c.cached.Get(ctx, key, own); err == nil {
		return versionOf(own), publisherOf(own), nil
	} else if !apierrors.IsNotFound(err) {
		return "", "", fmt.Errorf("get %s %q: %w", kind, key.Name, err)
	}
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	if err := c.cached.Get(ctx, key, meta); apierrors.IsNotFound(err) {
		return "", "", nil
	} else if err != nil {
		return "", "", fmt.Errorf("look for %s %q: %w", kind, key.Name, err)
	}
	return versionOf(meta), "", nil
}

// unwatched returns the contents of a Secret that were read within secretResync.
func (c *configReader) unwatched(ctx context.Context, key client.ObjectKey) (contents, error) {
	if known := c.lastRead(kindSecret, key); !known.readAt.IsZero() && time.Since(known.readAt) < secretResync {
		return known, nil
	}
	return c.readLive(ctx, kindSecret, key, false)
}

func (c *configReader) lastRead(kind string, key client.ObjectKey) contents {
	last, _ := c.contents.Get(kind + "/" + key.String())
	known, _ := last.(contents)
	return known
}

// contentsOf returns the contents of an object at that version or a later one. changed is true if workloads run another version.
func (c *configReader) contentsOf(ctx context.Context, kind string, key client.ObjectKey, version string, changed bool) (contents, error) {
	if known := c.lastRead(kind, key); version == "" || known.version == version {
		known.version = version
		return known, nil
	}
	return c.readLive(ctx, kind, key, changed)
}

func (c *configReader) readLive(ctx context.Context, kind string, key client.ObjectKey, changed bool) (contents, error) {
	obj := emptyObject(kind)
	if err := c.live.Get(ctx, key, obj); client.IgnoreNotFound(err) != nil {
		return contents{}, fmt.Errorf("read %s %q: %w", kind, key.Name, err)
	}
	last := c.lastRead(kind, key)
	now := contents{readAt: time.Now(), changedAt: last.changedAt, values: digestsOf(obj)}
	if obj.GetUID() != "" {
		now.version, now.publisher = versionOf(obj), publisherOf(obj)
	}
	if last.values != nil {
		changed = !maps.EqualFunc(last.values, now.values, slices.Equal)
	}
	if changed {
		now.changedAt = now.readAt
	}
	c.contents.Add(kind+"/"+key.String(), now)
	return now, nil
}

// digestsOf returns the digests of an object's values. They stay in memory.
func digestsOf(obj client.Object) map[string][]byte {
	values := map[string][]byte{}
	add := func(key string, value []byte) {
		sum := sha256.Sum256(value)
		values[key] = sum[:]
	}
	switch o := obj.(type) {
	case *corev1.ConfigMap:
		for key, value := range o.Data {
			add(key, []byte(value))
		}
		for key, value := range o.BinaryData {
			add(key, value)
		}
	case *corev1.Secret:
		for key, value := range o.Data {
			add(key, value)
		}
	}
	return values
}

func emptyObject(kind string) client.Object {
	if kind == kindSecret {
		return &corev1.Secret{}
	}
	return &corev1.ConfigMap{}
}

func versionOf(o metav1.Object) string { return string(o.GetUID()) + "/" + o.GetResourceVersion() }
