package webapp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
)

// errPortsTaken ends a reconcile that just renumbered ports. The watch triggers the next one.
var errPortsTaken = errors.New("ports were renumbered")

// Server-side apply identifies ports by number and protocol. If a user changed one of these, the apply would add the desired port
// next to the changed one and be rejected, since both have the same name. These ports are corrected first.

// portTaken reports whether an apply was rejected only because two ports have the same name. Correcting ports for another reason
// would restart pods.
func portTaken(err error) bool {
	var several interface{ Unwrap() []error }
	if errors.As(err, &several) {
		return slices.ContainsFunc(several.Unwrap(), portTaken)
	}
	return apierrors.HasStatusCause(err, metav1.CauseTypeFieldValueDuplicate)
}

// renumberPorts corrects the ports of the children, and reports whether any was wrong.
func (r *Reconciler) renumberPorts(ctx context.Context, app *appsv1.WebApp, p plan) (bool, error) {
	renumbered := false
	for _, o := range p.objects {
		var live client.Object
		switch o.(type) {
		case *appsv1ac.DeploymentApplyConfiguration:
			live = &k8sappsv1.Deployment{}
		case *corev1ac.ServiceApplyConfiguration:
			live = &corev1.Service{}
		default:
			continue
		}
		if err := r.Client.Get(ctx, client.ObjectKeyFromObject(app), live); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return false, fmt.Errorf("get %T: %w", live, err)
		}
		patch := portsPatch(app, live)
		if patch == nil || !owned(app, live) {
			continue
		}
		if err := r.Client.Patch(ctx, live, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(controllerName)); err != nil {
			return false, fmt.Errorf("renumber the ports of %T %q: %w", live, app.Name, err)
		}
		renumbered = true
	}
	return renumbered, nil
}

// operation is one step of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// portsPatch is the JSON patch that sets number and protocol of each named port of live; nil if they are correct.
func portsPatch(app *appsv1.WebApp, live client.Object) []byte {
	patch := []operation{{"test", "/metadata/resourceVersion", live.GetResourceVersion()}}
	switch live := live.(type) {
	case *corev1.Service:
		wanted := []namedPort{{mainPort, servicePort(app)}}
		for _, p := range app.Spec.Service.ExtraPorts {
			wanted = append(wanted, namedPort{p.Name, p.Port})
		}
		for i, p := range live.Spec.Ports {
			patch = append(patch, renumber(namedPort{p.Name, p.Port}, p.Protocol, fmt.Sprintf("/spec/ports/%d", i), "port", wanted)...)
		}
	case *k8sappsv1.Deployment:
		containers := live.Spec.Template.Spec.Containers
		if c := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == mainContainer }); c >= 0 {
			for i, p := range containers[c].Ports {
				path := fmt.Sprintf("/spec/template/spec/containers/%d/ports/%d", c, i)
				patch = append(patch, renumber(namedPort{p.Name, p.ContainerPort}, p.Protocol, path, "containerPort", containerPorts(app))...)
			}
		}
	}
	if len(patch) == 1 {
		return nil
	}
	raw, err := json.Marshal(patch)
	if err != nil {
		panic(fmt.Sprintf("strings and numbers have no JSON form: %v", err))
	}
	return raw
}

// renumber corrects the port live at path, whose number is in the given field. A port that is not desired stays.
func renumber(live namedPort, protocol corev1.Protocol, path, field string, wanted []namedPort) []operation {
	i := slices.IndexFunc(wanted, func(p namedPort) bool { return p.name == live.name })
	if i < 0 {
		return nil
	}
	var steps []operation
	if wanted[i].number != live.number {
		steps = append(steps, operation{"replace", path + "/" + field, wanted[i].number})
	}
	if protocol != "" && protocol != corev1.ProtocolTCP {
		steps = append(steps, operation{"replace", path + "/protocol", corev1.ProtocolTCP})
	}
	return steps
}
