package cmd

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// newClient reads through the manager's cache, except for the contents of Secrets and ConfigMaps, which are read by
// name from the API server and never cached. (client.CacheOptions.DisableFor would also read their metadata there.)
func newClient(config *rest.Config, options client.Options) (client.Client, error) {
	if options.Cache != nil && options.Cache.Reader != nil {
		uncached := options
		uncached.Cache = nil
		live, err := client.New(config, uncached)
		if err != nil {
			return nil, err
		}
		through := *options.Cache
		through.Reader = &contentsLive{Reader: options.Cache.Reader, live: live}
		options.Cache = &through
	}
	return client.New(config, options)
}

type contentsLive struct {
	client.Reader
	live client.Reader
}

func (r *contentsLive) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	switch obj.(type) {
	case *corev1.Secret, *corev1.ConfigMap:
		return r.live.Get(ctx, key, obj, opts...)
	}
	return r.Reader.Get(ctx, key, obj, opts...)
}

func (r *contentsLive) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	switch list.(type) {
	case *corev1.SecretList, *corev1.ConfigMapList:
		return r.live.List(ctx, list, opts...)
	}
	return r.Reader.List(ctx, list, opts...)
}
