// Package kube is a client that applies the add-ons of the local cluster.
package kube

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

const fieldOwner = "fettle-cluster"

// Client is a client of the cluster's API server.
type Client struct {
	kubernetes.Interface
	dynamic dynamic.Interface
	mapper  *restmapper.DeferredDiscoveryRESTMapper
}

// New creates a client from a kubeconfig file.
func New(kubeconfig string) (*Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", kubeconfig, err)
	}
	config.QPS, config.Burst = 100, 200
	config.Timeout = 20 * time.Second
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create a client: %w", err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create a client: %w", err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(clients.Discovery()))
	return &Client{Interface: clients, dynamic: objects, mapper: mapper}, nil
}

// Parse parses a stream of YAML documents and skips empty ones.
func Parse(manifests []byte) ([]*unstructured.Unstructured, error) {
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifests)))
	var objects []*unstructured.Unstructured
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read manifest: %w", err)
		}
		data, err := yaml.ToJSON(document)
		if err != nil {
			return nil, fmt.Errorf("parse manifest: %w", err)
		}
		object := &unstructured.Unstructured{}
		if err := json.Unmarshal(data, &object.Object); err != nil {
			return nil, fmt.Errorf("parse manifest: %w", err)
		}
		if object.GetKind() != "" {
			objects = append(objects, object)
		}
	}
}

// Apply applies the objects with server-side apply: CRDs first, then namespaces, then the other objects in their order. It
// retries until ctx is done, because a kind or a webhook may not be available yet.
func (c *Client) Apply(ctx context.Context, objects []*unstructured.Unstructured) error {
	ordered := slices.Clone(objects)
	slices.SortStableFunc(ordered, func(a, b *unstructured.Unstructured) int { return applyOrder(a) - applyOrder(b) })
	for _, o := range ordered {
		err := Poll(ctx, 500*time.Millisecond, func(ctx context.Context) (bool, error) {
			err := c.apply(ctx, o)
			if meta.IsNoMatchError(err) {
				c.mapper.Reset()
				return false, err
			}
			return err == nil, err
		})
		if err != nil {
			return fmt.Errorf("apply %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

// applyOrder returns 0 for CRDs, 1 for namespaces and 2 for other objects.
func applyOrder(o *unstructured.Unstructured) int {
	switch o.GetKind() {
	case "CustomResourceDefinition":
		return 0
	case "Namespace":
		return 1
	}
	return 2
}

func (c *Client) apply(ctx context.Context, o *unstructured.Unstructured) error {
	resource, err := c.resource(o.GroupVersionKind(), o.GetNamespace())
	if err != nil {
		return err
	}
	_, err = resource.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: fieldOwner, Force: true})
	return err
}

func (c *Client) resource(kind schema.GroupVersionKind, namespace string) (dynamic.ResourceInterface, error) {
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return c.dynamic.Resource(mapping.Resource), nil
	}
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return c.dynamic.Resource(mapping.Resource).Namespace(namespace), nil
}

// Get reads one object. It returns nil without an error if the object does not exist.
func (c *Client) Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	resource, err := c.resource(kind, namespace)
	if meta.IsNoMatchError(err) {
		c.mapper.Reset()
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	object, err := resource.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return object, err
}

// Annotate sets an annotation.
func (c *Client) Annotate(ctx context.Context, kind schema.GroupVersionKind, namespace, name, key, value string) error {
	resource, err := c.resource(kind, namespace)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{key: value}}})
	if err != nil {
		return err
	}
	_, err = resource.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldOwner})
	return err
}

// Poll calls done until it returns true or ctx is done. If ctx is done, Poll returns the last error of done, or the error of
// ctx if there is none.
func Poll(ctx context.Context, interval time.Duration, done func(context.Context) (bool, error)) error {
	var last error
	for {
		ok, err := done(ctx)
		if ok {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			if last != nil {
				return last
			}
			return ctx.Err()
		case <-time.After(interval):
		}
	}
}
