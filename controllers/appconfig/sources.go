package appconfig

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	"github.com/fettle-dev/fettle/internal/render"
)

const (
	kindConfigMap = "ConfigMap"
	kindSecret    = "Secret"

	// secretResync is the interval at which unwatched Secrets are read again.
	secretResync = 10 * time.Minute
	// secretsSeen limits the number of recorded reads of unwatched Secrets.
	secretsSeen = 10_000
)

// source is the state of one entry of spec.valuesFrom.
type source struct {
	kind, name, prefix string
	optional           bool
	// version is the UID and resourceVersion of the object; "" if it does not exist.
	version string
}

func sourcesOf(cfg *configv1.AppConfig) []source {
	out := make([]source, 0, len(cfg.Spec.ValuesFrom))
	for _, from := range cfg.Spec.ValuesFrom {
		switch {
		case from.ConfigMapRef != nil:
			out = append(out, source{kind: kindConfigMap, name: from.ConfigMapRef.Name, prefix: from.Prefix, optional: from.ConfigMapRef.Optional})
		case from.SecretRef != nil:
			out = append(out, source{kind: kindSecret, name: from.SecretRef.Name, prefix: from.Prefix, optional: from.SecretRef.Optional})
		}
	}
	return out
}

// missing returns the first required source that does not exist.
func missing(sources []source) *source {
	for i := range sources {
		if sources[i].version == "" && !sources[i].optional {
			return &sources[i]
		}
	}
	return nil
}

// sourceReader reads the objects of spec.valuesFrom: their versions from the metadata cache, their contents by name.
type sourceReader struct {
	cached       client.Reader
	live         client.Reader
	watchSecrets bool
	unwatched    *lru.Cache
}

type seenSecret struct {
	version string
	at      time.Time
}

func newSourceReader(mgr ctrl.Manager, watchSecrets bool) *sourceReader {
	return &sourceReader{
		cached: mgr.GetClient(), live: mgr.GetAPIReader(), watchSecrets: watchSecrets, unwatched: lru.New(secretsSeen),
	}
}

// resync returns when to read unwatched objects again; 0 if all are watched.
func (r *sourceReader) resync(cfg *configv1.AppConfig) time.Duration {
	if r.watchSecrets {
		return 0
	}
	for _, from := range cfg.Spec.ValuesFrom {
		if from.SecretRef != nil {
			return secretResync
		}
	}
	return 0
}

// look returns the sources of cfg with their versions, in the order of the spec.
func (r *sourceReader) look(ctx context.Context, cfg *configv1.AppConfig) ([]source, error) {
	sources := sourcesOf(cfg)
	for i := range sources {
		var err error
		if sources[i].version, err = r.version(ctx, cfg.Namespace, sources[i]); err != nil {
			return nil, err
		}
	}
	return sources, nil
}

func (r *sourceReader) version(ctx context.Context, namespace string, s source) (string, error) {
	key := client.ObjectKey{Namespace: namespace, Name: s.name}
	if s.kind == kindSecret && !r.watchSecrets {
		if known, ok := r.unwatched.Get(key.String()); ok && time.Since(known.(seenSecret).at) < secretResync {
			return known.(seenSecret).version, nil
		}
		_, version, err := r.read(ctx, key, s.kind)
		return version, err
	}
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(s.kind))
	if err := r.cached.Get(ctx, key, meta); apierrors.IsNotFound(err) {
		return "", nil
	} else if err != nil {
		return "", fmt.Errorf("look for %s %q: %w", s.kind, s.name, err)
	}
	return versionOf(meta), nil
}

// values reads the contents of all sources and sets their versions to those that it read. Later sources win.
func (r *sourceReader) values(ctx context.Context, namespace string, sources []source) (map[string]render.Value, error) {
	values := map[string]render.Value{}
	for i := range sources {
		s := &sources[i]
		if s.version == "" {
			continue
		}
		data, version, err := r.read(ctx, client.ObjectKey{Namespace: namespace, Name: s.name}, s.kind)
		if err != nil {
			return nil, err
		}
		s.version = version
		for k, v := range data {
			values[s.prefix+k] = render.Value{Text: v, Secret: s.kind == kindSecret}
		}
	}
	return values, nil
}

// read returns the contents and the version of an object. The version is "" if it does not exist.
func (r *sourceReader) read(ctx context.Context, key client.ObjectKey, kind string) (map[string]string, string, error) {
	data := map[string]string{}
	var obj client.Object = &corev1.ConfigMap{}
	if kind == kindSecret {
		obj = &corev1.Secret{}
	}
	version := ""
	switch err := r.live.Get(ctx, key, obj); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return nil, "", fmt.Errorf("read %s %q: %w", kind, key.Name, err)
	default:
		version = versionOf(obj)
	}
	switch o := obj.(type) {
	case *corev1.ConfigMap:
		maps.Copy(data, o.Data)
		addBytes(data, o.BinaryData)
	case *corev1.Secret:
		addBytes(data, o.Data)
		r.unwatched.Add(key.String(), seenSecret{version: version, at: time.Now()})
	}
	return data, version, nil
}

func addBytes(data map[string]string, more map[string][]byte) {
	for k, v := range more {
		data[k] = string(v)
	}
}

func versionOf(o metav1.Object) string { return string(o.GetUID()) + "/" + o.GetResourceVersion() }
