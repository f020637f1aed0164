package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-dev/fettle/internal/apply"
)

// Workload holds the relevant fields of a Deployment, StatefulSet or DaemonSet. It must not be modified.
type Workload struct {
	Kind            string
	Namespace       string
	Name            string
	UID             types.UID
	ResourceVersion string
	// Labels are the labels of the workload, not of its pods.
	Labels map[string]string
	// References are the references of the pod template to ConfigMaps and Secrets, without duplicates, in order.
	References []Reference
	// uses are the owners in UsesAnnotation.
	uses []string
	// Images of its containers, each once; empty for a workload without references.
	Images []string
	// Progress of its rollout.
	Progress Progress

	deleting bool
	// created is when the workload was created; changed is the last time when a client other than this package may have changed the
	// template.
	created, changed time.Time
	// records and templates are the annotations with Fettle's prefixes, of the workload and of its pod template.
	records, templates map[string]string
}

// workloadOf reads a trimmed Deployment, StatefulSet or DaemonSet. The result shares its maps.
func workloadOf(obj client.Object) (*Workload, error) {
	switch o := obj.(type) {
	case *k8sappsv1.Deployment:
		return newWorkload(Deployment, &o.ObjectMeta, &o.Spec.Template, ofDeployment(o)), nil
	case *k8sappsv1.StatefulSet:
		return newWorkload(StatefulSet, &o.ObjectMeta, &o.Spec.Template, ofStatefulSet(o)), nil
	case *k8sappsv1.DaemonSet:
		return newWorkload(DaemonSet, &o.ObjectMeta, &o.Spec.Template, ofDaemonSet(o)), nil
	default:
		return nil, fmt.Errorf("%T is not a workload that can be restarted", obj)
	}
}

func newWorkload(kind string, m *metav1.ObjectMeta, template *corev1.PodTemplateSpec, p Progress) *Workload {
	w := &Workload{
		Kind: kind, Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Labels: m.Labels,
		References: ReferencesOf(&template.Spec), Images: imagesOf(&template.Spec), uses: usesIn(m.Annotations[UsesAnnotation]), Progress: p,
		deleting: m.DeletionTimestamp != nil, created: m.CreationTimestamp.Time, changed: m.CreationTimestamp.Time,
		records: m.Annotations, templates: template.Annotations,
	}
	for _, e := range m.ManagedFields {
		switch e.Manager {
		case trimmedTemplate:
			w.changed = latest(w.changed, e.Time.Time)
		case trimmedStatus:
			w.Progress.since = e.Time.Time
		}
	}
	return w
}

func usesIn(annotation string) []string {
	var names []string
	for name := range strings.SplitSeq(annotation, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// withoutMounts is the workload without volumes that the kubelet refreshes.
func (w *Workload) withoutMounts() *Workload {
	out := *w
	out.References = slices.DeleteFunc(slices.Clone(w.References), func(r Reference) bool { return r.Mounted })
	return &out
}

// String names the workload in messages.
func (w *Workload) String() string { return w.Kind + " " + w.Name }

func compareWorkloads(a, b *Workload) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
}

func workloadID(kind, namespace, name string) apply.ObjectID {
	return apply.ObjectID{
		GroupVersionKind: k8sappsv1.SchemeGroupVersion.WithKind(kind), NamespacedName: types.NamespacedName{Namespace: namespace, Name: name},
	}
}

func idOf(w *Workload) apply.ObjectID { return workloadID(w.Kind, w.Namespace, w.Name) }

// usesOf returns the objects and keys that w uses, in an order that does not depend on versions. A dependant without references to them
// uses all keys of all objects.
func (o Owner) usesOf(w *Workload, objects []Object) []use {
	var uses []use
	for _, ref := range w.References {
		for i := range objects {
			if object := &objects[i]; object.matches(ref) {
				uses = append(uses, use{object: object, name: ref.Name, key: ref.Key, referred: true, optional: ref.Optional})
			}
		}
	}
	if len(uses) == 0 || (o.Prefix == ConfigPrefix && slices.Contains(w.uses, o.token())) {
		for i := range objects {
			uses = append(uses, use{object: &objects[i], name: objects[i].Target, optional: o.plain()})
		}
	}
	slices.SortStableFunc(uses, func(a, b use) int {
		return cmp.Or(cmp.Compare(a.object.Kind, b.object.Kind), cmp.Compare(a.object.Target, b.object.Target),
			cmp.Compare(a.key, b.key), cmp.Compare(a.name, b.name))
	})
	return uses
}

// matches reports whether a reference names the object, its target or one of its versions.
func (o *Object) matches(ref Reference) bool {
	if ref.Kind != o.Kind {
		return false
	}
	if ref.Name == o.Target || ref.Name == o.Name || slices.Contains(o.Versions, ref.Name) {
		return true
	}
	base, ok := BaseOf(ref.Name)
	return ok && o.Versioned && base == o.Target
}
