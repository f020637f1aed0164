package rollout

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/fettle-dev/fettle/internal/apply"
)

// indexUsed finds workloads by the objects that they use, see usedBy.
const indexUsed = "used"

// workloads is a cache of all Deployments, StatefulSets and DaemonSets, Fettle's or not, trimmed to the fields that the engine reads.
type workloads struct{ cache.Cache }

// GetCache makes the manager start it with its own caches, before the controllers, in standbys too.
func (s workloads) GetCache() cache.Cache { return s.Cache }

// kinds are the kinds of workloads, with empty objects and lists.
var kinds = []struct {
	kind   string
	object client.Object
	list   client.ObjectList
}{
	{DaemonSet, &k8sappsv1.DaemonSet{}, &k8sappsv1.DaemonSetList{}},
	{Deployment, &k8sappsv1.Deployment{}, &k8sappsv1.DeploymentList{}},
	{StatefulSet, &k8sappsv1.StatefulSet{}, &k8sappsv1.StatefulSetList{}},
}

func newWorkloads(mgr manager.Manager, namespaces []string) (workloads, error) {
	options := cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultTransform: trimWorkload, DefaultUnsafeDisableDeepCopy: new(true), ReaderFailOnMissingInformer: true,
	}
	for _, name := range namespaces {
		if options.DefaultNamespaces == nil {
			options.DefaultNamespaces = map[string]cache.Config{}
		}
		options.DefaultNamespaces[name] = cache.Config{}
	}
	c, err := cache.New(mgr.GetConfig(), options)
	if err != nil {
		return workloads{}, fmt.Errorf("cache of workloads: %w", err)
	}
	for _, k := range kinds {
		//nolint:forbidigo // nothing is waited for before the manager starts
		if err := c.IndexField(context.Background(), k.object, indexUsed, usedBy); err != nil {
			return workloads{}, fmt.Errorf("index workloads: %w", err)
		}
	}
	return workloads{c}, mgr.Add(workloads{c})
}

// usedBy returns the values of indexUsed: KIND/NAME of each referenced object and of the target that it looks like a version of, "uses
// NAME" for UsesAnnotation, and the annotation of each record.
func usedBy(obj client.Object) []string {
	w, err := workloadOf(obj)
	if err != nil {
		return nil
	}
	values := map[string]bool{}
	for _, ref := range w.References {
		for _, name := range ref.Names() {
			values[ref.Kind+"/"+name] = true
		}
	}
	for _, token := range w.uses {
		values[usesAll(token)] = true
	}
	for key := range w.records {
		values[key] = key != UsesAnnotation
	}
	maps.DeleteFunc(values, func(_ string, used bool) bool { return !used })
	return slices.Collect(maps.Keys(values))
}

func usesAll(token string) string { return "uses " + token }

// dependants returns the workloads that use the objects according to policy, in no order.
func (s workloads) dependants(ctx context.Context, owner Owner, policy Policy, objects []Object) ([]*Workload, error) {
	found := map[apply.ObjectID]*Workload{}
	for _, by := range discover(owner, policy, objects) {
		if err := s.list(ctx, owner.Namespace, by, found); err != nil {
			return nil, err
		}
	}
	if policy.IgnoreMounts {
		maps.DeleteFunc(found, func(_ apply.ObjectID, w *Workload) bool {
			return !w.withoutMounts().refersTo(objects) && !slices.Contains(w.uses, owner.token())
		})
	}
	for _, target := range policy.Targets {
		w, err := s.get(ctx, workloadID(target.Kind, owner.Namespace, target.Name))
		if err != nil {
			return nil, err
		}
		if w != nil {
			found[idOf(w)] = w
		}
	}
	workloads := slices.Collect(maps.Values(found))
	if policy.IgnoreMounts {
		for i, w := range workloads {
			workloads[i] = w.withoutMounts()
		}
	}
	return workloads, nil
}

// refersTo reports whether the pod template refers to one of the objects.
func (w *Workload) refersTo(objects []Object) bool {
	return slices.ContainsFunc(w.References, func(ref Reference) bool {
		return slices.ContainsFunc(objects, func(o Object) bool { return o.matches(ref) })
	})
}

// discover returns the list options that find dependants.
func discover(owner Owner, policy Policy, objects []Object) []client.ListOption {
	by := []client.ListOption{client.MatchingFields{indexUsed: usesAll(owner.token())}}
	switch policy.Discovery {
	case None:
	case Selector:
		if policy.Selector != nil {
			by = append(by, client.MatchingLabelsSelector{Selector: policy.Selector})
		}
	default:
		for i := range objects {
			by = append(by, client.MatchingFields{indexUsed: objects[i].Kind + "/" + objects[i].Target})
		}
	}
	return by
}

// list adds the matching workloads of a namespace.
func (s workloads) list(ctx context.Context, namespace string, by client.ListOption, found map[apply.ObjectID]*Workload) error {
	for _, k := range kinds {
		list := k.list.DeepCopyObject().(client.ObjectList)
		if err := s.List(ctx, list, client.InNamespace(namespace), by); err != nil {
			return fmt.Errorf("list %ss: %w", k.kind, err)
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			w, err := workloadOf(item.(client.Object))
			if err == nil {
				found[idOf(w)] = w
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// get returns nil for a workload that does not exist.
func (s workloads) get(ctx context.Context, id apply.ObjectID) (*Workload, error) {
	obj, err := emptyOf(id.Kind)
	if err != nil {
		return nil, err
	}
	if err := s.Get(ctx, id.NamespacedName, obj); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("get %s %q: %w", id.Kind, id.Name, err)
	}
	return workloadOf(obj)
}

func emptyOf(kind string) (client.Object, error) {
	for _, k := range kinds {
		if k.kind == kind {
			return k.object.DeepCopyObject().(client.Object), nil
		}
	}
	return nil, fmt.Errorf("kind %q of a target: give %s, %s or %s", kind, Deployment, StatefulSet, DaemonSet)
}

// fieldOwner is the field manager of this package's writes.
const fieldOwner = "rollout"

// Names of managers in trimmed managedFields.
const (
	trimmedTemplate = "kept/template"
	trimmedStatus   = "kept/status"
)

// trimWorkload is the transform of the cache: it keeps the fields of a workload that [workloadOf] reads. It accepts its own output.
func trimWorkload(in any) (any, error) {
	switch o := in.(type) {
	case *k8sappsv1.Deployment:
		return &k8sappsv1.Deployment{
			ObjectMeta: trimMeta(o.ObjectMeta),
			Spec:       k8sappsv1.DeploymentSpec{Replicas: o.Spec.Replicas, Paused: o.Spec.Paused, Template: trimTemplate(&o.Spec.Template)},
			Status: k8sappsv1.DeploymentStatus{
				ObservedGeneration: o.Status.ObservedGeneration, Replicas: o.Status.Replicas, UpdatedReplicas: o.Status.UpdatedReplicas,
				AvailableReplicas: o.Status.AvailableReplicas, Conditions: progressingOnly(o.Status.Conditions),
			},
		}, nil
	case *k8sappsv1.StatefulSet:
		return &k8sappsv1.StatefulSet{
			ObjectMeta: trimMeta(o.ObjectMeta),
			Spec: k8sappsv1.StatefulSetSpec{
				Replicas: o.Spec.Replicas, UpdateStrategy: o.Spec.UpdateStrategy, Template: trimTemplate(&o.Spec.Template),
			},
			Status: k8sappsv1.StatefulSetStatus{
				ObservedGeneration: o.Status.ObservedGeneration, UpdatedReplicas: o.Status.UpdatedReplicas, ReadyReplicas: o.Status.ReadyReplicas,
				CurrentRevision: o.Status.CurrentRevision, UpdateRevision: o.Status.UpdateRevision,
			},
		}, nil
	case *k8sappsv1.DaemonSet:
		return &k8sappsv1.DaemonSet{
			ObjectMeta: trimMeta(o.ObjectMeta),
			Spec:       k8sappsv1.DaemonSetSpec{UpdateStrategy: o.Spec.UpdateStrategy, Template: trimTemplate(&o.Spec.Template)},
			Status: k8sappsv1.DaemonSetStatus{
				ObservedGeneration: o.Status.ObservedGeneration, DesiredNumberScheduled: o.Status.DesiredNumberScheduled,
				UpdatedNumberScheduled: o.Status.UpdatedNumberScheduled, NumberAvailable: o.Status.NumberAvailable,
			},
		}, nil
	default:
		return in, nil // a tombstone: the deletion was missed
	}
}

func trimMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
		Labels: m.Labels, Annotations: fettleAnnotations(m.Annotations), ManagedFields: trimManaged(m.ManagedFields),
	}
}

func fettleAnnotations(annotations map[string]string) map[string]string {
	var kept map[string]string
	for key, value := range annotations {
		if isFettleAnnotation(key) {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[key] = value
		}
	}
	return kept
}

// trimManaged keeps the last time when other clients changed the pod template, and the last write of the status.
func trimManaged(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	var template, status *metav1.Time
	for _, e := range entries {
		switch {
		case e.Manager == trimmedStatus, e.Subresource == "status":
			status = later(status, e.Time)
		case e.Manager == trimmedTemplate:
			template = later(template, e.Time)
		case e.Subresource == "" && e.Manager != fieldOwner && e.FieldsV1 != nil && bytes.Contains(e.FieldsV1.GetRawBytes(), []byte(`"f:template":`)):
			template = later(template, e.Time)
		}
	}
	var kept []metav1.ManagedFieldsEntry
	if template != nil {
		kept = append(kept, metav1.ManagedFieldsEntry{Manager: trimmedTemplate, Time: template})
	}
	if status != nil {
		kept = append(kept, metav1.ManagedFieldsEntry{Manager: trimmedStatus, Time: status})
	}
	return kept
}

func later(a, b *metav1.Time) *metav1.Time {
	if a == nil || (b != nil && a.Before(b)) {
		return b
	}
	return a
}

// trimTemplate keeps Fettle's annotations, the references, and the images if there are references. It merges all containers into one and
// all volumes into one.
func trimTemplate(t *corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	out := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: fettleAnnotations(t.Annotations)}}
	refs := ReferencesOf(&t.Spec)
	if len(refs) == 0 {
		return out
	}
	all := corev1.Container{Image: strings.Join(imagesOf(&t.Spec), " ")}
	var mounted corev1.ProjectedVolumeSource
	for _, ref := range refs {
		if ref.Mounted {
			mounted.Sources = append(mounted.Sources, projectionOf(ref))
		} else {
			addReference(&all, ref)
		}
	}
	out.Spec.Containers = []corev1.Container{all}
	if mounted.Sources != nil {
		out.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: &mounted}}}
	}
	return out
}

// imagesOf returns the images of all containers, each once, in order. It splits the images that trimTemplate joined.
func imagesOf(pod *corev1.PodSpec) []string {
	var images []string
	for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range containers {
			images = append(images, strings.Fields(containers[i].Image)...)
		}
	}
	slices.Sort(images)
	return slices.Compact(images)
}

// projectionOf is the part of a volume that holds the reference.
func projectionOf(ref Reference) corev1.VolumeProjection {
	name := corev1.LocalObjectReference{Name: ref.Name}
	optional := (*bool)(nil)
	if ref.Optional {
		optional = new(true)
	}
	var items []corev1.KeyToPath
	if ref.Key != "" {
		items = []corev1.KeyToPath{{Key: ref.Key}}
	}
	if ref.Kind == ConfigMap {
		return corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: name, Items: items, Optional: optional}}
	}
	return corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: name, Items: items, Optional: optional}}
}

// addReference adds the reference to a container's environment.
func addReference(c *corev1.Container, ref Reference) {
	optional := (*bool)(nil)
	if ref.Optional {
		optional = new(true)
	}
	name := corev1.LocalObjectReference{Name: ref.Name}
	switch {
	case ref.Key == "" && ref.Kind == ConfigMap:
		c.EnvFrom = append(c.EnvFrom, corev1.EnvFromSource{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: name, Optional: optional}})
	case ref.Key == "":
		c.EnvFrom = append(c.EnvFrom, corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: name, Optional: optional}})
	case ref.Kind == ConfigMap:
		c.Env = append(c.Env, corev1.EnvVar{ValueFrom: &corev1.EnvVarSource{
			ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: name, Key: ref.Key, Optional: optional},
		}})
	default:
		c.Env = append(c.Env, corev1.EnvVar{ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: name, Key: ref.Key, Optional: optional},
		}})
	}
}
