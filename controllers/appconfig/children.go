package appconfig

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/reconciler"
)

// find reads the published objects and the history of cfg.
func (r *Reconciler) find(ctx context.Context, cfg *configv1.AppConfig) (existing, error) {
	var found existing
	maps := &corev1.ConfigMapList{}
	if err := r.Client.List(ctx, maps, client.InNamespace(cfg.Namespace), client.MatchingFields{indexOwner: cfg.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return found, fmt.Errorf("list ConfigMaps: %w", err)
	}
	for i := range maps.Items {
		cm := &maps.Items[i]
		if !metav1.IsControlledBy(cm, cfg) || cm.DeletionTimestamp != nil {
			continue
		}
		secret, err := r.secretOf(ctx, cfg, cm)
		if err != nil {
			return found, err
		}
		rev := revisionOf(cm, secret)
		switch {
		case cm.Labels[labelRevision] != "":
			found.kept = append(found.kept, rev)
		case cm.Name == targetName(cfg):
			found.target = &rev
		}
	}
	slices.SortFunc(found.kept, func(a, b revision) int {
		return cmp.Or(cmp.Compare(b.number, a.number), cmp.Compare(a.name, b.name))
	})
	return found, nil
}

// secretOf returns the Secret that belongs to cm; nil if there is none or it is missing.
func (r *Reconciler) secretOf(ctx context.Context, cfg *configv1.AppConfig, cm *corev1.ConfigMap) (*corev1.Secret, error) {
	if cm.Annotations[annotationSecret] == "" {
		return nil, nil //nolint:nilnil // none is an answer
	}
	secret := &corev1.Secret{}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(cm), secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // none is an answer
	case err != nil:
		return nil, fmt.Errorf("get Secret: %w", err)
	case !metav1.IsControlledBy(secret, cfg):
		return nil, nil //nolint:nilnil // another owner's
	}
	return secret, nil
}

// conflict returns the other user of the target's name: an AppConfig with precedence, or an object of another owner.
func (r *Reconciler) conflict(ctx context.Context, cfg *configv1.AppConfig) (*conditions.State, error) {
	name := targetName(cfg)
	first, holder, err := r.publisher(ctx, cfg.Namespace, name)
	if err != nil {
		return nil, err
	}
	if first != nil && first.UID != cfg.UID {
		return new(nameTaken(name, first)), nil
	}
	for _, kind := range r.names(cfg, holder) {
		if foreign, err := r.foreign(ctx, cfg, kind, name); err != nil || foreign {
			return new(nameOccupied(kind, name)), err
		}
	}
	return nil, nil //nolint:nilnil // none is an answer
}

// publisher returns the AppConfig that publishes under a name, nil if there is none, and the ConfigMap of that name, empty if there
// is none.
func (r *Reconciler) publisher(ctx context.Context, namespace, name string) (*configv1.AppConfig, *corev1.ConfigMap, error) {
	rivals := &configv1.AppConfigList{}
	if err := r.Client.List(ctx, rivals, client.InNamespace(namespace), client.MatchingFields{indexTarget: name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("list AppConfigs: %w", err)
	}
	holder := &corev1.ConfigMap{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, holder); client.IgnoreNotFound(err) != nil {
		return nil, nil, fmt.Errorf("get ConfigMap: %w", err)
	}
	return firstOf(rivals.Items, holder), holder, nil
}

// names are the kinds of objects of the target's name that cfg may write, without the ConfigMap holder if it has that already.
func (r *Reconciler) names(cfg *configv1.AppConfig, holder *corev1.ConfigMap) []string {
	var kinds []string
	if versioned(cfg) {
		return nil
	}
	if !metav1.IsControlledBy(holder, cfg) {
		kinds = append(kinds, kindConfigMap)
	}
	if r.sources.watchSecrets && usesSecrets(cfg) {
		kinds = append(kinds, kindSecret)
	}
	return kinds
}

// foreign reports whether an object exists that cfg does not control. If only the metadata cache shows it, it may be deleted, or not
// yet be in the cache of Fettle's own objects; the API server decides.
func (r *Reconciler) foreign(ctx context.Context, cfg *configv1.AppConfig, kind, name string) (bool, error) {
	key := client.ObjectKey{Namespace: cfg.Namespace, Name: name}
	for _, look := range []struct {
		reader client.Reader
		obj    client.Object
		needed bool // without it there is none
	}{
		{r.Client, metadataOf(kind), true},
		{r.Client, emptyObject(kind), false},
		{r.sources.live, metadataOf(kind), true},
	} {
		err := client.IgnoreNotFound(look.reader.Get(ctx, key, look.obj))
		if err != nil {
			return false, fmt.Errorf("look for %s %q: %w", kind, name, err)
		}
		if belongs(cfg, look.obj) || (look.needed && look.obj.GetUID() == "") {
			return false, nil
		}
	}
	return true, nil
}

// belongs reports whether cfg may write obj, or will soon. The garbage collector is about to delete an object of a former AppConfig
// of the same name, and Apply waits for that. An object that lost its owner reference is adopted again if it has Fettle's label.
func belongs(cfg *configv1.AppConfig, obj metav1.Object) bool {
	if ref := metav1.GetControllerOfNoCopy(obj); ref != nil {
		return ref.UID == cfg.UID || (ref.Kind == ownerKind && ref.Name == cfg.Name)
	}
	return obj.GetLabels()[reconciler.LabelOwnerKind] == ownerKind && obj.GetLabels()[reconciler.LabelOwnerName] == cfg.Name
}

func metadataOf(kind string) client.Object {
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return meta
}

func usesSecrets(cfg *configv1.AppConfig) bool {
	return slices.ContainsFunc(cfg.Spec.ValuesFrom, func(f configv1.AppConfigValuesSource) bool { return f.SecretRef != nil })
}

func emptyObject(kind string) client.Object {
	if kind == kindSecret {
		return &corev1.Secret{}
	}
	return &corev1.ConfigMap{}
}

// firstOf is the one of rivals, all of which want the same name, that may publish: the controller of the existing objects, otherwise
// one whose status says that it published, otherwise the oldest. A paused or deleted AppConfig keeps what it has.
func firstOf(rivals []configv1.AppConfig, there *corev1.ConfigMap) *configv1.AppConfig {
	if len(rivals) == 0 {
		return nil
	}
	for i := range rivals {
		if metav1.IsControlledBy(there, &rivals[i]) {
			return &rivals[i]
		}
	}
	first := slices.MinFunc(rivals, func(a, b configv1.AppConfig) int {
		return cmp.Or(-cmp.Compare(min(a.Status.Revision, 1), min(b.Status.Revision, 1)), older(&a, &b))
	})
	return &first
}

// older compares the ages of two AppConfigs of a namespace. The older one is less.
func older(a, b *configv1.AppConfig) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// cacheCurrent reports whether the cache shows the last writes for cfg, and everything that status says is published. A cache of
// several namespaces does not say how far it has progressed. What it lacks may be deleted or not yet in the cache; the API server
// decides.
func (r *Reconciler) cacheCurrent(ctx context.Context, cfg *configv1.AppConfig) (bool, error) {
	if current, err := r.Applier.CacheCurrent(ctx, cfg); err != nil || !current || cfg.Status.ConfigMapName == "" {
		return current, err
	}
	key := client.ObjectKey{Namespace: cfg.Namespace, Name: cfg.Status.ConfigMapName}
	if err := r.Client.Get(ctx, key, &corev1.ConfigMap{}, client.UnsafeDisableDeepCopy); !apierrors.IsNotFound(err) {
		return err == nil, err
	}
	live := metadataOf(kindConfigMap)
	if err := r.sources.live.Get(ctx, key, live); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("look for ConfigMap %q: %w", key.Name, err)
	}
	// An object without Fettle's label never enters the cache. Apply restores the label.
	return live.GetUID() == "" || live.GetLabels()[labelManagedBy] != managedByFettle, nil
}

// prune deletes objects that are no longer published and, in mode InPlace, surplus copies. Nothing refers to them.
func (r *Reconciler) prune(ctx context.Context, cfg *configv1.AppConfig, p plan) error {
	meta := metav1.ObjectMeta{Namespace: cfg.Namespace, Name: targetName(cfg)}
	var objects []client.Object
	if p.dropSecret {
		objects = append(objects, &corev1.Secret{ObjectMeta: meta})
	}
	if !versioned(cfg) {
		objects = append(objects, objectsNamed(cfg, p.surplus)...)
	}
	return r.Applier.Prune(ctx, cfg, objects...)
}

func objectsNamed(cfg *configv1.AppConfig, revisions []revision) []client.Object {
	var objects []client.Object
	for _, rev := range revisions {
		meta := metav1.ObjectMeta{Namespace: cfg.Namespace, Name: rev.name}
		objects = append(objects, &corev1.ConfigMap{ObjectMeta: meta})
		if rev.withSecret {
			objects = append(objects, &corev1.Secret{ObjectMeta: meta})
		}
	}
	return objects
}
