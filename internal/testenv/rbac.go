package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// extraRole holds Options.Rules.
const extraRole = "fettle-test-extra"

// roleFiles are the operator's roles. The one generated from markers must exist.
func roleFiles(root string) ([]string, error) {
	role := filepath.Join(root, "config", "rbac", "role.yaml")
	if _, err := os.Stat(role); err != nil {
		return nil, fmt.Errorf("the operator's role is missing, run `make generate`: %w", err)
	}
	files := []string{role}
	if leader := filepath.Join(root, "config", "rbac", "leader_election_role.yaml"); exists(leader) {
		files = append(files, leader)
	}
	return files, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// grant creates the roles and binds them to the operator.
func (e *Env) grant(ctx context.Context, files []string, rules []rbacv1.PolicyRule) error {
	c, err := client.New(e.Admin, client.Options{})
	if err != nil {
		return fmt.Errorf("client for the test's user: %w", err)
	}
	roles, err := readRoles(files)
	if err != nil {
		return err
	}
	if len(rules) > 0 {
		extra, err := roleOf(extraRole, rules)
		if err != nil {
			return err
		}
		roles = append(roles, extra)
	}
	namespace := newObject("v1", "Namespace", "", OperatorNamespace)
	if err := applyObject(ctx, c, namespace); err != nil {
		return err
	}
	for _, role := range roles {
		for _, object := range []*unstructured.Unstructured{role, bindingOf(role, OperatorUser)} {
			if err := applyObject(ctx, c, object); err != nil {
				return err
			}
		}
	}
	return nil
}

func readRoles(files []string) ([]*unstructured.Unstructured, error) {
	var roles []*unstructured.Unstructured
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
		for {
			role := &unstructured.Unstructured{}
			if err := decoder.Decode(role); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("read %s: %w", file, err)
			}
			if kind := role.GetKind(); kind != "ClusterRole" && kind != "Role" {
				continue
			}
			if role.GetKind() == "Role" && (role.GetNamespace() == "" || role.GetNamespace() == "system") {
				role.SetNamespace(OperatorNamespace) // kustomize does the same
			}
			roles = append(roles, role)
		}
	}
	return roles, nil
}

// Identity creates another user with its own permissions, for a controller that is not the operator. It impersonates the
// user through Admin. The audit log shows the user's name.
func (e *Env) Identity(ctx context.Context, name string, rules []rbacv1.PolicyRule) (*rest.Config, error) {
	c, err := client.New(e.Admin, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("client for the test's user: %w", err)
	}
	role, err := roleOf("fettle-test-"+name, rules)
	if err != nil {
		return nil, err
	}
	for _, object := range []*unstructured.Unstructured{role, bindingOf(role, name)} {
		if err := applyObject(ctx, c, object); err != nil {
			return nil, err
		}
	}
	if err := waitForRule(ctx, c, name, rules[len(rules)-1]); err != nil {
		return nil, err
	}
	config := rest.CopyConfig(e.Admin)
	config.Impersonate = rest.ImpersonationConfig{UserName: name}
	return config, nil
}

// waitForRule waits until the API server knows a rule of a user: its authorizer reads roles from a cache.
func waitForRule(ctx context.Context, c client.Client, user string, rule rbacv1.PolicyRule) error {
	resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
	review := authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: resource, Subresource: subresource,
		},
	}}
	if len(rule.ResourceNames) > 0 {
		review.Spec.ResourceAttributes.Name = rule.ResourceNames[0]
	}
	err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) {
		r := review.DeepCopy()
		err := c.Create(ctx, r)
		return r.Status.Allowed, err
	})
	if err != nil {
		return fmt.Errorf("wait for the permissions of %s: %w", user, err)
	}
	return nil
}

func roleOf(name string, rules []rbacv1.PolicyRule) (*unstructured.Unstructured, error) {
	return toUnstructured(&rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules,
	})
}

func bindingOf(role *unstructured.Unstructured, user string) *unstructured.Unstructured {
	binding := newObject(rbacv1.SchemeGroupVersion.String(), role.GetKind()+"Binding", role.GetNamespace(), "fettle-test-"+role.GetName())
	binding.Object["roleRef"] = map[string]any{"apiGroup": rbacv1.GroupName, "kind": role.GetKind(), "name": role.GetName()}
	binding.Object["subjects"] = []any{
		map[string]any{"apiGroup": rbacv1.GroupName, "kind": "User", "name": user},
	}
	return binding
}

func newObject(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(apiVersion)
	object.SetKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

func toUnstructured(object any) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: content}, nil
}

func applyObject(ctx context.Context, c client.Client, object *unstructured.Unstructured) error {
	unstructured.RemoveNestedField(object.Object, "metadata", "creationTimestamp")
	err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("fettle-test"), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}
