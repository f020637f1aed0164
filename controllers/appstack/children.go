package appstack

import (
	"context"
	"errors"
	"fmt"
	"slices"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/postgres/scram"
	"github.com/fettle-dev/fettle/internal/reconciler"
	"github.com/fettle-dev/fettle/internal/requeue"
	"github.com/fettle-dev/fettle/internal/stack"
	"github.com/fettle-dev/fettle/internal/stack/server"
)

// mainKinds are the kinds of main objects. name is the kind of the component, "" if a label says it.
var mainKinds = []struct {
	name string
	list func() client.ObjectList
}{
	{stack.KindWebApp, func() client.ObjectList { return &appsv1.WebAppList{} }},
	{stack.KindPostgreSQL, func() client.ObjectList { return &databasev1alpha1.PostgreSQLList{} }},
	{stack.KindAppConfig, func() client.ObjectList { return &configv1.AppConfigList{} }},
	{"", func() client.ObjectList { return &k8sappsv1.StatefulSetList{} }},
}

// childrenOf returns those objects of a list that s controls.
func childrenOf(s *platformv1.AppStack, kind string, list client.ObjectList) (children []stack.Child) {
	_ = meta.EachListItem(list, func(item runtime.Object) error { // the function never fails
		obj := item.(client.Object)
		if metav1.IsControlledBy(obj, s) {
			child := stack.ChildOf(kind, obj)
			if kind == "" {
				child.Kind = obj.GetLabels()[stack.LabelKind]
			}
			children = append(children, child)
		}
		return nil
	})
	return children
}

// write creates, changes or repairs the objects of c, and deletes those that it should not have. version identifies its Secret, "" if that
// does not exist. It returns the version of the Secret that it created otherwise; "" while the cache does not show it.
func (r *Reconciler) write(ctx context.Context, s *platformv1.AppStack, c *stack.Component, version string) (string, error) {
	if version == "" && (c.Cache != nil || c.MySQL != nil) {
		var err error
		if version, err = r.createSecret(ctx, s, c); err != nil || version == "" {
			return "", err
		}
	}
	if err := r.Applier.Apply(ctx, s, c.Objects(version)...); err != nil {
		return version, err
	}
	if err := r.Applier.Prune(ctx, s, c.Unwanted()...); err != nil {
		return version, err
	}
	return version, r.grow(ctx, c)
}

// errCredentialsMissing keeps a MySQL from starting on a volume with another password.
var errCredentialsMissing = errors.New("the volume has a database, and its Secret with the passwords is missing: restore the Secret, or delete the PersistentVolumeClaim to start with an empty database")

// createSecret creates the Secret with the credentials of a cache or MySQL, and returns its version; "" if it exists and the cache does not
// show it.
func (r *Reconciler) createSecret(ctx context.Context, s *platformv1.AppStack, c *stack.Component) (version string, err error) {
	secret, err := newSecret(c)
	if err != nil {
		return "", err
	}
	inherited := s.Inherited()
	secret.Labels = fettlev1.Inherit(secret.Labels, inherited.Labels)
	secret.Annotations = fettlev1.Inherit(secret.Annotations, inherited.Annotations)
	if c.Cache != nil {
		err = r.Applier.Create(ctx, s, secret)
	} else {
		err = r.createRetained(ctx, c, secret)
	}
	if err == nil && secret.UID == "" {
		requeue.Request(ctx)
	}
	return string(secret.UID), err
}

// newSecret generates the credentials of a cache or MySQL.
func newSecret(c *stack.Component) (*corev1.Secret, error) {
	password, err := scram.Generate()
	if err != nil {
		return nil, fmt.Errorf("generate a password: %w", err)
	}
	if c.Cache != nil {
		return server.CacheSecret(c.Server, c.Cache, password), nil
	}
	root, err := scram.Generate()
	if err != nil {
		return nil, fmt.Errorf("generate a password: %w", err)
	}
	return server.MySQLSecret(c.Server, c.MySQL, password, root), nil
}

// createRetained creates a Secret that has no owner, so that the deletion of the AppStack keeps it, as it keeps the volume.
func (r *Reconciler) createRetained(ctx context.Context, c *stack.Component, secret *corev1.Secret) error {
	claim := &corev1.PersistentVolumeClaim{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: secret.Namespace, Name: server.ClaimName(c.Ref)}, claim)
	if err == nil {
		return errCredentialsMissing
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("get PersistentVolumeClaim: %w", err)
	}
	if err := r.Client.Create(ctx, secret, client.FieldOwner(fieldOwner)); err != nil {
		live := &metav1.PartialObjectMetadata{}
		live.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		if apierrors.IsAlreadyExists(err) && r.Live.Get(ctx, client.ObjectKeyFromObject(secret), live) == nil && !hasLabels(live, c.Server.Selector) {
			return secretConflict(live)
		}
		return fmt.Errorf("create Secret %q: %w", secret.Name, err)
	}
	return nil
}

func hasLabels(obj client.Object, labels map[string]string) bool {
	for key, value := range labels {
		if obj.GetLabels()[key] != value {
			return false
		}
	}
	return true
}

func secretConflict(live client.Object) error {
	return &apply.ConflictError{OwnerKind: stack.OwnerKind, GVK: corev1.SchemeGroupVersion.WithKind("Secret"), Namespace: live.GetNamespace(), Name: live.GetName()}
}

// secretVersion identifies the Secret of a cache or MySQL; "" if there is none. foreign is an error if it is another owner's.
func (r *Reconciler) secretVersion(ctx context.Context, c *stack.Component) (version string, foreign, err error) {
	if c.Cache == nil && c.MySQL == nil {
		return "", nil, nil
	}
	live := &corev1.Secret{}
	err = r.Client.Get(ctx, client.ObjectKey{Namespace: c.Server.Namespace, Name: server.SecretName(c.Ref)}, live)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return "", nil, fmt.Errorf("get Secret: %w", err)
	case err == nil && !hasLabels(live, c.Server.Selector):
		return "", secretConflict(live), nil
	}
	return string(live.UID), nil, nil
}

// grow raises the size of a MySQL's volume, which the template of its StatefulSet cannot.
func (r *Reconciler) grow(ctx context.Context, c *stack.Component) error {
	if c.MySQL == nil {
		return nil
	}
	claim := &corev1.PersistentVolumeClaim{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: c.Server.Namespace, Name: server.ClaimName(c.Ref)}, claim)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if size := claim.Spec.Resources.Requests[corev1.ResourceStorage]; size.Cmp(c.Server.Storage) >= 0 || claim.DeletionTimestamp != nil {
		return nil
	}
	changed := claim.DeepCopy()
	changed.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: c.Server.Storage}
	patch := client.MergeFromWithOptions(claim, client.MergeFromWithOptimisticLock{})
	if err := requeue.IfOutdated(ctx, r.Client.Patch(ctx, changed, patch, client.FieldOwner(fieldOwner))); err != nil {
		return &apply.WriteError{Verb: "resize", GVK: corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), Namespace: claim.Namespace, Name: claim.Name, Err: err}
	}
	return nil
}

// observe reads the state of a component from the cache.
func (r *Reconciler) observe(ctx context.Context, s *platformv1.AppStack, c *stack.Component) (stack.State, error) {
	key := client.ObjectKey{Namespace: s.Namespace, Name: c.Ref}
	switch c.Kind {
	case stack.KindExternal:
		return r.observeExternal(ctx, key)
	case stack.KindMySQL, stack.KindCache:
		return r.observeServer(ctx, s, c, key)
	}
	obj := map[string]conditions.Object{
		stack.KindWebApp: &appsv1.WebApp{}, stack.KindPostgreSQL: &databasev1alpha1.PostgreSQL{}, stack.KindAppConfig: &configv1.AppConfig{},
	}[c.Kind]
	if err := r.Client.Get(ctx, key, obj); client.IgnoreNotFound(err) != nil {
		return stack.State{}, fmt.Errorf("get %s %q: %w", c.Kind, c.Ref, err)
	}
	if !metav1.IsControlledBy(obj, s) || obj.GetDeletionTimestamp() != nil { // or there is none
		return missing(), nil
	}
	return stateOf(obj), nil
}

func missing() stack.State {
	return stack.State{Ready: conditions.Unknown(platformv1.ComponentApplied, "is being created")}
}

func (r *Reconciler) observeExternal(ctx context.Context, key client.ObjectKey) (stack.State, error) {
	var err error
	if r.WatchSecrets {
		meta := &metav1.PartialObjectMetadata{}
		meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		err = r.Client.Get(ctx, key, meta)
	} else {
		err = r.Live.Get(ctx, key, &corev1.Secret{})
	}
	switch {
	case apierrors.IsNotFound(err):
		return stack.State{Trouble: true, Ready: conditions.False(platformv1.ComponentMissing,
			fmt.Sprintf("Secret %q does not exist in namespace %q: create it, with the URL of the server", key.Name, key.Namespace))}, nil
	case err != nil:
		return stack.State{}, fmt.Errorf("look for Secret %q: %w", key.Name, err)
	}
	return stack.State{Exists: true, Ready: conditions.True("", "")}, nil
}

func (r *Reconciler) observeServer(ctx context.Context, s *platformv1.AppStack, c *stack.Component, key client.ObjectKey) (stack.State, error) {
	set := &k8sappsv1.StatefulSet{}
	if err := r.Client.Get(ctx, key, set); client.IgnoreNotFound(err) != nil {
		return stack.State{}, fmt.Errorf("get StatefulSet %q: %w", c.Ref, err)
	}
	if !metav1.IsControlledBy(set, s) || set.DeletionTimestamp != nil { // or there is none
		return missing(), nil
	}
	pods := &corev1.PodList{}
	if err := r.Client.List(ctx, pods, client.InNamespace(s.Namespace), client.MatchingFields{indexPods: s.Name}); err != nil {
		return stack.State{}, fmt.Errorf("list pods: %w", err)
	}
	mine := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return !hasLabels(&p, c.Server.Selector) })
	ready := server.Ready(set, mine)
	return stack.State{Exists: true, Ready: ready, Trouble: ready.Status == metav1.ConditionFalse && !slices.Contains(progressReasons, ready.Reason)}, nil
}

// progressReasons are the reasons of a child that report work in progress.
var progressReasons = []string{platformv1.ComponentApplied, "RollingOut", "Reconciling", "Starting"}

// stateOf is the state that a child of one of Fettle's kinds reports of its current generation.
func stateOf(obj conditions.Object) stack.State {
	ready := conditions.ReadyOf(obj)
	state := stack.State{Exists: true, Ready: conditions.State{Status: ready.Status, Reason: ready.Reason, Message: ready.Message}}
	if ready.ObservedGeneration != obj.GetGeneration() {
		state.Ready = conditions.Unknown(platformv1.ComponentApplied, "its controller has not reported on the current version yet")
		return state
	}
	switch o := obj.(type) {
	case *appsv1.WebApp:
		state.Trouble = o.Status.Phase == appsv1.PhaseDegraded || o.Status.Phase == appsv1.PhaseFailed
		state.URL = o.Status.URL
		state.External = o.Spec.Ingress != nil || o.Spec.Gateway != nil || o.Spec.Service.Type == corev1.ServiceTypeLoadBalancer
	case *databasev1alpha1.PostgreSQL:
		state.Trouble = o.Status.Phase == databasev1alpha1.PhaseDegraded || o.Status.Phase == databasev1alpha1.PhaseFailed
	case *configv1.AppConfig:
		state.Trouble = o.Status.Phase == configv1.PhaseDegraded || o.Status.Phase == configv1.PhaseFailed
		published := meta.FindStatusCondition(o.Status.Conditions, configv1.AppConfigPublished)
		state.Usable = published != nil && published.Status == metav1.ConditionTrue && published.ObservedGeneration == o.Generation
	}
	return state
}

// deleteRetained deletes the Secret of a MySQL whose volume is deleted with it.
func (r *Reconciler) deleteRetained(ctx context.Context, set *k8sappsv1.StatefulSet) error {
	policy := set.Spec.PersistentVolumeClaimRetentionPolicy
	if policy == nil || policy.WhenDeleted != k8sappsv1.DeletePersistentVolumeClaimRetentionPolicyType {
		return nil
	}
	live := &corev1.Secret{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: set.Namespace, Name: server.SecretName(set.Name)}, live)
	if err != nil || !equality.Semantic.DeepEqual(live.Labels[reconciler.LabelOwnerName], set.Labels[reconciler.LabelOwnerName]) {
		return client.IgnoreNotFound(err)
	}
	if err := r.Client.Delete(ctx, live, client.Preconditions{UID: &live.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Secret %q: %w", live.Name, err)
	}
	return nil
}
