// Package cache defines the objects that the operator watches and keeps in memory.
//
// The cache holds Fettle's children, and their pods trimmed to the status. It holds only the metadata of the Secrets and ConfigMaps of
// other clients. Their contents are read by name from the API server (manager.GetAPIReader) and never kept.
package cache

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// New makes the manager's cache (manager.Options.NewCache). Reads of a typed Secret or ConfigMap return Fettle's own; reads of their
// metadata return all. If watchSecrets is false, the role allows only reads of Secrets by name. The cache then reads them from the API
// server each time, and rejects lists and watches.
func New(watchSecrets bool) cache.NewCacheFunc {
	return func(config *rest.Config, options cache.Options) (cache.Cache, error) {
		contents := contentsOptions(options) // first: New sets defaults
		main, err := cache.New(config, options)
		if err != nil {
			return nil, err
		}
		typed, err := cache.New(config, contents)
		if err != nil {
			return nil, err
		}
		s := &splitCache{Cache: main, contents: typed}
		if !watchSecrets {
			s.live, err = client.New(config, client.Options{Scheme: options.Scheme, Mapper: options.Mapper, HTTPClient: options.HTTPClient})
		}
		return s, err
	}
}

// splitCache is a cache of metadata and children, and a second cache for the contents of Fettle's own Secrets and ConfigMaps.
type splitCache struct {
	cache.Cache
	contents cache.Cache
	live     client.Reader // nil if Secrets may be watched
}

func (s *splitCache) cacheFor(obj runtime.Object) cache.Cache {
	switch obj.(type) {
	case *corev1.Secret, *corev1.SecretList, *corev1.ConfigMap, *corev1.ConfigMapList:
		return s.contents
	}
	return s.Cache
}

// checkWatchable returns an error for objects that cannot be listed or watched.
func (s *splitCache) checkWatchable(obj runtime.Object) error {
	switch obj.(type) {
	case *corev1.Secret, *corev1.SecretList:
		if s.live != nil {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", errors.New("--watch-secrets=false: Secrets can only be read by name"))
		}
	}
	return nil
}

// Get implements client.Reader.
func (s *splitCache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if _, ok := obj.(*corev1.Secret); ok && s.live != nil {
		return s.live.Get(ctx, key, obj, opts...)
	}
	return s.cacheFor(obj).Get(ctx, key, obj, opts...)
}

// List implements client.Reader.
func (s *splitCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := s.checkWatchable(list); err != nil {
		return err
	}
	return s.cacheFor(list).List(ctx, list, opts...)
}

// GetInformer implements cache.Informers.
func (s *splitCache) GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	if err := s.checkWatchable(obj); err != nil {
		return nil, err
	}
	return s.cacheFor(obj).GetInformer(ctx, obj, opts...)
}

// GetInformerForKind implements cache.Informers. Its informers are typed.
func (s *splitCache) GetInformerForKind(ctx context.Context, gvk schema.GroupVersionKind, opts ...cache.InformerGetOption) (cache.Informer, error) {
	switch gvk {
	case corev1.SchemeGroupVersion.WithKind("Secret"):
		return s.GetInformer(ctx, &corev1.Secret{}, opts...)
	case corev1.SchemeGroupVersion.WithKind("ConfigMap"):
		return s.GetInformer(ctx, &corev1.ConfigMap{}, opts...)
	}
	return s.Cache.GetInformerForKind(ctx, gvk, opts...)
}

// RemoveInformer implements cache.Informers.
func (s *splitCache) RemoveInformer(ctx context.Context, obj client.Object) error {
	return s.cacheFor(obj).RemoveInformer(ctx, obj)
}

// IndexField implements client.FieldIndexer.
func (s *splitCache) IndexField(ctx context.Context, obj client.Object, field string, values client.IndexerFunc) error {
	if err := s.checkWatchable(obj); err != nil {
		return err
	}
	return s.cacheFor(obj).IndexField(ctx, obj, field, values)
}

// Start implements cache.Informers: it runs until the context is cancelled.
func (s *splitCache) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	var failed error
	running.Go(func() {
		defer cancel()
		if err := s.contents.Start(ctx); err != nil {
			failed = fmt.Errorf("cache of own Secrets and ConfigMaps: %w", err)
		}
	})
	err := s.Cache.Start(ctx)
	cancel()
	running.Wait()
	if err != nil {
		return err
	}
	return failed
}

// WaitForCacheSync implements cache.Informers.
func (s *splitCache) WaitForCacheSync(ctx context.Context) bool {
	return s.Cache.WaitForCacheSync(ctx) && s.contents.WaitForCacheSync(ctx)
}
