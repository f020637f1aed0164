package rollout

import (
	"context"
	"fmt"
	"maps"
	"slices"

	k8sappsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
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

// Names are the name, and the target that it looks like a version of.
func (r Reference) Names() []string {
	if base, ok := BaseOf(r.Name); ok {
		return []string{r.Name, base}
	}
	return []string{r.Name}
}

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
