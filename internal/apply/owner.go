package apply

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
)

// ownerRef is the controller of the children.
type ownerRef struct {
	gvk  schema.GroupVersionKind
	name types.NamespacedName
	uid  types.UID
	// reconciled is whether the status has conditions other than the default ones: a missing child was probably deleted.
	reconciled bool
	// inherited are labels and annotations of every child; nil for none.
	inherited *fettlev1.InheritedMetadata
}

func ownerOf(owner client.Object, scheme *runtime.Scheme) (ownerRef, error) {
	gvk, err := apiutil.GVKForObject(owner, scheme)
	if err != nil {
		return ownerRef{}, fmt.Errorf("kind of owner %q: %w", owner.GetName(), err)
	}
	if owner.GetUID() == "" {
		return ownerRef{}, fmt.Errorf("%s %q has no UID: only an object that was read from the API server can own others",
			gvk.Kind, owner.GetName())
	}
	o := ownerRef{gvk: gvk, name: client.ObjectKeyFromObject(owner), uid: owner.GetUID()}
	if withStatus, ok := owner.(interface{ Conditions() *[]metav1.Condition }); ok {
		o.reconciled = slices.ContainsFunc(*withStatus.Conditions(), func(c metav1.Condition) bool { return c.ObservedGeneration > 0 })
	}
	if inheriting, ok := owner.(interface {
		Inherited() *fettlev1.InheritedMetadata
	}); ok {
		o.inherited = inheriting.Inherited()
	}
	return o, nil
}

// pass adds the inherited labels and annotations to content, a desired object. Those of the object itself win.
func (o ownerRef) pass(content map[string]any) error {
	if o.inherited == nil {
		return nil
	}
	for name, inherited := range map[string]map[string]string{"labels": o.inherited.Labels, "annotations": o.inherited.Annotations} {
		own, _, err := unstructured.NestedStringMap(content, "metadata", name)
		if err == nil && len(inherited) > 0 {
			err = unstructured.SetNestedStringMap(content, fettlev1.Inherit(own, inherited), "metadata", name)
		}
		if err != nil {
			return fmt.Errorf("inherit %s: %w", name, err)
		}
	}
	return nil
}

// check rejects a child that the garbage collector would delete as an orphan.
func (o ownerRef) check(gvk schema.GroupVersionKind, child types.NamespacedName) error {
	if o.name.Namespace != "" && o.name.Namespace != child.Namespace {
		return fmt.Errorf("%s %q is in namespace %q, its owner %s %q in %q: they must be in the same one",
			gvk.Kind, child.Name, child.Namespace, o.gvk.Kind, o.name.Name, o.name.Namespace)
	}
	return nil
}

// addTo makes o the controller of content, a desired object.
func (o ownerRef) addTo(content map[string]any) error {
	metadata, ok := content["metadata"].(map[string]any)
	if !ok {
		return errors.New("has no metadata")
	}
	refs, _ := metadata["ownerReferences"].([]any)
	for _, r := range refs {
		if m, ok := r.(map[string]any); ok && m["controller"] == true {
			return errors.New("already has a controller: leave the owner reference to Apply")
		}
	}
	metadata["ownerReferences"] = append(refs, map[string]any{
		"apiVersion":         o.gvk.GroupVersion().String(),
		"kind":               o.gvk.Kind,
		"name":               o.name.Name,
		"uid":                string(o.uid),
		"controller":         true,
		"blockOwnerDeletion": true,
	})
	return nil
}

// reference returns the owner reference for a created object.
func (o ownerRef) reference() metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion:         o.gvk.GroupVersion().String(),
		Kind:               o.gvk.Kind,
		Name:               o.name.Name,
		UID:                o.uid,
		Controller:         new(true),
		BlockOwnerDeletion: new(true),
	}
}

// adopt makes o the controller of obj unless it has another one, and reports whether o is the controller now.
func (o ownerRef) adopt(obj metav1.Object) bool {
	if metav1.GetControllerOfNoCopy(obj) == nil {
		obj.SetOwnerReferences(append(obj.GetOwnerReferences(), o.reference()))
	}
	return o.controls(obj)
}

func (o ownerRef) controls(obj metav1.Object) bool {
	ref := metav1.GetControllerOfNoCopy(obj)
	return ref != nil && ref.UID == o.uid
}

// isFormerOwners reports whether the controller of obj is a deleted object of o's kind and name. The garbage collector is about to delete
// obj.
func (o ownerRef) isFormerOwners(obj metav1.Object) bool {
	ref := metav1.GetControllerOfNoCopy(obj)
	if ref == nil || ref.UID == o.uid || ref.Kind != o.gvk.Kind || ref.Name != o.name.Name {
		return false
	}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	return err == nil && gv.Group == o.gvk.Group
}

// conflict describes obj, which has the name of a child of o.
func (o ownerRef) conflict(gvk schema.GroupVersionKind, obj metav1.Object) *ConflictError {
	e := &ConflictError{OwnerKind: o.gvk.Kind, GVK: gvk, Namespace: obj.GetNamespace(), Name: obj.GetName()}
	if ref := metav1.GetControllerOfNoCopy(obj); ref != nil {
		e.Controller = ref.Kind + " " + ref.Name
	}
	return e
}
