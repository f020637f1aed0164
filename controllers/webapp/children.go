package webapp

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	k8sappsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	autoscalingv2ac "k8s.io/client-go/applyconfigurations/autoscaling/v2"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/optionalapi"
	"github.com/fettle-dev/fettle/internal/rollout"
)

// inputs are the observed objects that determine the children of a WebApp.
type inputs struct {
	// deployment is nil if there is none, or if another owner has it.
	deployment *k8sappsv1.Deployment
	revisions  []k8sappsv1.ControllerRevision
	// namespaceLabels are the labels of the WebApp's namespace.
	namespaceLabels map[string]string
	// config has one entry for each of spec.configRefs, in their order.
	config []refState
	// createdWith are the versions of ConfigMaps and Secrets with which the Deployment was created, or will be.
	createdWith string
	// versionedNames are the versions that AppConfigs rolled out to the Deployment, by kind and name of the reference in the spec.
	versionedNames map[string]string
	// good is the pod template of the last successful rollout; nil if there is none or autoRollback is off.
	good *revision
	// ready is the revision of the Deployment if its rollout is complete. live are the annotations of its pod template.
	ready string
	live  map[string]string
	// apis says which optional APIs the cluster lacks.
	apis optionalapi.Served
	// foreign is another owner's HorizontalPodAutoscaler of the Deployment; nil if there is none.
	foreign *autoscalingv1.HorizontalPodAutoscaler
}

// plan is the desired state: the children, and what the status needs to know about them.
type plan struct {
	objects []runtime.ApplyConfiguration
	// own is the revision of the spec, running is the revision that the pods should run.
	own, running revision
	// waitingForRefs is true if the Deployment does not change because a reference is missing.
	waitingForRefs bool
	// rejected is the reason why spec.podTemplate can't be used, and the Deployment does not change; nil if it can.
	rejected error
	// autoscaled has the bounds of the autoscaler that sets the number of pods; nil while spec.replicas does.
	autoscaled *bounds
}

// held reports whether the Deployment is not applied.
func (p plan) held() bool { return p.waitingForRefs || p.rejected != nil }

// desired returns the desired children of app, in the order in which they are applied.
func desired(app *appsv1.WebApp, in inputs) plan {
	p := plan{own: ownRevision(app, in), autoscaled: scalingBounds(app, in.foreign)}
	p.running = p.own
	if rolledBack(app, p.own, in.good) {
		p.running = *in.good
	}
	p.waitingForRefs = configMissing(in.config) != nil
	if p.rejected = rejectedPodTemplate(app, in); !p.held() {
		p.objects = append(p.objects, deployment(app, in, p))
	}
	p.objects = append(p.objects, service(app))
	for _, child := range optionalChildren(app, in, p) {
		if child.wanted && !child.apiMissing {
			p.objects = append(p.objects, child.desired(app))
		}
	}
	p.objects = append(p.objects, recordedRevision(app, in, p.running)...)
	return p
}

// optionalChild is a child that exists only if the spec asks for it and the cluster has its API.
type optionalChild struct {
	wanted, apiMissing bool
	desired            func(*appsv1.WebApp) runtime.ApplyConfiguration
	// object has its name.
	object client.Object
}

func optionalChildren(app *appsv1.WebApp, in inputs, p plan) []optionalChild {
	meta := metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name, Labels: selector(app)}
	route, monitor := optionalapi.HTTPRoute, optionalapi.ServiceMonitor
	return []optionalChild{
		{wantsPDB(app, p), false, disruptionBudget, &policyv1.PodDisruptionBudget{ObjectMeta: meta}},
		{app.Spec.Autoscaling != nil, false, autoscaler, &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: meta}},
		{app.Spec.Ingress != nil, false, ingress, &networkingv1.Ingress{ObjectMeta: meta}},
		{wantsNetworkPolicy(app), false, networkPolicy, &networkingv1.NetworkPolicy{ObjectMeta: meta}},
		{app.Spec.Gateway != nil, in.apis.Missing[route.Kind], httpRoute, route.Object(app)},
		{app.Spec.Monitoring != nil, in.apis.Missing[monitor.Kind], serviceMonitor, monitor.Object(app)},
	}
}

// toPrune returns the children that may exist and are not desired.
func toPrune(app *appsv1.WebApp, in inputs, p plan) []client.Object {
	var out []client.Object
	for _, child := range optionalChildren(app, in, p) {
		if !child.wanted && !child.apiMissing {
			out = append(out, child.object)
		}
	}
	keep := map[string]bool{}
	for _, o := range p.objects {
		if rev, ok := o.(*appsv1ac.ControllerRevisionApplyConfiguration); ok {
			keep[*rev.Name] = true
		}
	}
	for i := range in.revisions {
		if !keep[in.revisions[i].Name] {
			out = append(out, &in.revisions[i])
		}
	}
	return out
}

func deployment(app *appsv1.WebApp, in inputs, p plan) *appsv1ac.DeploymentApplyConfiguration {
	annotations := map[string]string{}
	if in.createdWith != "" {
		annotations[rollout.CreatedWithAnnotation] = in.createdWith
	}
	if used := publishers(in.config); used != "" {
		annotations[rollout.UsesAnnotation] = used
	}
	spec := appsv1ac.DeploymentSpec().
		WithSelector(metav1ac.LabelSelector().WithMatchLabels(selector(app))).
		WithRevisionHistoryLimit(historyLimit).
		WithProgressDeadlineSeconds(int32(app.Spec.Rollout.ProgressDeadline.Seconds())).
		WithStrategy(strategy(app)).
		WithTemplate(p.running.annotated(in.versionedNames))
	if p.autoscaled == nil {
		annotations[annotationReplicas] = "spec"
		spec.WithReplicas(replicas(app))
	}
	return appsv1ac.Deployment(app.Name, app.Namespace).
		WithLabels(labels(app)).
		WithAnnotations(annotations).
		WithSpec(spec)
}

// strategy sets Kubernetes' defaults explicitly. Defaults that the API server sets would stay when the type becomes Recreate, which
// has none of them.
func strategy(app *appsv1.WebApp) *appsv1ac.DeploymentStrategyApplyConfiguration {
	s := app.Spec.Strategy
	if s == nil {
		s = &appsv1.WebAppStrategy{}
	}
	if s.Type == string(k8sappsv1.RecreateDeploymentStrategyType) {
		return appsv1ac.DeploymentStrategy().WithType(k8sappsv1.RecreateDeploymentStrategyType)
	}
	quarter := intstr.FromString("25%")
	return appsv1ac.DeploymentStrategy().
		WithType(k8sappsv1.RollingUpdateDeploymentStrategyType).
		WithRollingUpdate(appsv1ac.RollingUpdateDeployment().
			WithMaxSurge(*cmp.Or(s.MaxSurge, &quarter)).
			WithMaxUnavailable(*cmp.Or(s.MaxUnavailable, &quarter)))
}

func replicas(app *appsv1.WebApp) int32 {
	if app.Spec.Replicas == nil {
		return 1
	}
	return *app.Spec.Replicas
}

// bounds are the minimum and the maximum number of pods under an autoscaler.
type bounds struct{ least, most int32 }

// scalingBounds are the bounds of the WebApp's own autoscaler, otherwise of the foreign one; nil while spec.replicas sets the
// number.
func scalingBounds(app *appsv1.WebApp, foreign *autoscalingv1.HorizontalPodAutoscaler) *bounds {
	switch a := app.Spec.Autoscaling; {
	case a != nil:
		return &bounds{a.MinReplicas, a.MaxReplicas}
	case foreign != nil:
		return &bounds{*cmp.Or(foreign.Spec.MinReplicas, new(int32(1))), foreign.Spec.MaxReplicas}
	}
	return nil
}

// scaledDeployment is the name of the Deployment that another owner's HorizontalPodAutoscaler scales; "" if there is none.
func scaledDeployment(scaler *autoscalingv1.HorizontalPodAutoscaler) string {
	target := scaler.Spec.ScaleTargetRef
	group, err := schema.ParseGroupVersion(target.APIVersion)
	if err != nil || group.Group != k8sappsv1.GroupName || target.Kind != "Deployment" {
		return ""
	}
	if owner := metav1.GetControllerOf(scaler); owner != nil && owner.Kind == ownerKind {
		if by, err := schema.ParseGroupVersion(owner.APIVersion); err == nil && by.Group == appsv1.GroupVersion.Group {
			return ""
		}
	}
	return target.Name
}

func autoscaler(app *appsv1.WebApp) runtime.ApplyConfiguration {
	a := app.Spec.Autoscaling
	spec := autoscalingv2ac.HorizontalPodAutoscalerSpec().
		WithScaleTargetRef(autoscalingv2ac.CrossVersionObjectReference().
			WithAPIVersion("apps/v1").WithKind("Deployment").WithName(app.Name)).
		WithMinReplicas(a.MinReplicas).
		WithMaxReplicas(a.MaxReplicas)
	for _, m := range []struct {
		resource corev1.ResourceName
		target   *int32
	}{
		{corev1.ResourceCPU, a.TargetCPUUtilizationPercentage},
		{corev1.ResourceMemory, a.TargetMemoryUtilizationPercentage},
	} {
		if m.target == nil {
			continue
		}
		spec.WithMetrics(autoscalingv2ac.MetricSpec().
			WithType(autoscalingv2.ResourceMetricSourceType).
			WithResource(autoscalingv2ac.ResourceMetricSource().
				WithName(m.resource).
				WithTarget(autoscalingv2ac.MetricTarget().
					WithType(autoscalingv2.UtilizationMetricType).
					WithAverageUtilization(*m.target))))
	}
	if a.Behavior != nil {
		spec.WithBehavior(apply.Convert[autoscalingv2ac.HorizontalPodAutoscalerBehaviorApplyConfiguration](a.Behavior))
	}
	return autoscalingv2ac.HorizontalPodAutoscaler(app.Name, app.Namespace).
		WithLabels(labels(app)).
		WithSpec(spec)
}

// wantsPDB reports whether a PodDisruptionBudget is desired. By default a single pod has none, since it would block node drains.
func wantsPDB(app *appsv1.WebApp, p plan) bool {
	d := app.Spec.Disruption
	if d != nil && d.Enabled != nil && !*d.Enabled {
		return false
	}
	if d != nil && (d.MinAvailable != nil || d.MaxUnavailable != nil) {
		return true
	}
	if p.autoscaled != nil {
		return p.autoscaled.most > 1
	}
	return replicas(app) > 1
}

func disruptionBudget(app *appsv1.WebApp) runtime.ApplyConfiguration {
	spec := policyv1ac.PodDisruptionBudgetSpec().
		WithSelector(metav1ac.LabelSelector().WithMatchLabels(selector(app))).
		// An unready pod never blocks a node drain.
		WithUnhealthyPodEvictionPolicy(policyv1.AlwaysAllow)
	switch d := app.Spec.Disruption; {
	case d != nil && d.MinAvailable != nil:
		spec.WithMinAvailable(*d.MinAvailable)
	case d != nil && d.MaxUnavailable != nil:
		spec.WithMaxUnavailable(*d.MaxUnavailable)
	default:
		spec.WithMaxUnavailable(intstr.FromInt32(1))
	}
	return policyv1ac.PodDisruptionBudget(app.Name, app.Namespace).
		WithLabels(labels(app)).
		WithSpec(spec)
}

// wantsNetworkPolicy reports whether a NetworkPolicy is wanted.
func wantsNetworkPolicy(app *appsv1.WebApp) bool {
	n := app.Spec.NetworkPolicy
	return n != nil && (n.Enabled == nil || *n.Enabled)
}

func networkPolicy(app *appsv1.WebApp) runtime.ApplyConfiguration {
	rule := networkingv1ac.NetworkPolicyIngressRule()
	for _, p := range containerPorts(app) {
		rule.WithPorts(networkingv1ac.NetworkPolicyPort().WithProtocol("TCP").WithPort(intstr.FromString(p.name)))
	}
	from := app.Spec.NetworkPolicy.From
	for _, peer := range from {
		rule.WithFrom(apply.Convert[networkingv1ac.NetworkPolicyPeerApplyConfiguration](peer))
	}
	if len(from) == 0 {
		rule.WithFrom(networkingv1ac.NetworkPolicyPeer().WithPodSelector(metav1ac.LabelSelector()))
	}
	return networkingv1ac.NetworkPolicy(app.Name, app.Namespace).
		WithLabels(labels(app)).
		WithSpec(networkingv1ac.NetworkPolicySpec().
			WithPodSelector(metav1ac.LabelSelector().WithMatchLabels(selector(app))).
			WithPolicyTypes(networkingv1.PolicyTypeIngress).
			WithIngress(rule))
}

func serviceMonitor(app *appsv1.WebApp) runtime.ApplyConfiguration {
	m := app.Spec.Monitoring
	return optionalapi.ServiceMonitor.Child(app, labels(app), m.Labels, map[string]any{
		"selector":  map[string]any{"matchLabels": optionalapi.StringMap(selector(app))},
		"endpoints": []any{map[string]any{"port": m.Port, "path": m.Path, "interval": m.Interval}},
	})
}

// wanted is the desired number of pods of the Deployment.
func wanted(d *k8sappsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

// scaledTo returns the number of pods that holdReplicasForHPA writes; nil for none. When an autoscaler takes over, it is the current
// number: a field without an owner would fall back to its default of one pod. While the pod template does not change, because a
// reference is missing or spec.podTemplate can't be used, it is the number in the spec.
func scaledTo(app *appsv1.WebApp, p plan, d *k8sappsv1.Deployment) *int32 {
	switch {
	case d == nil:
		return nil
	case p.held() && p.autoscaled == nil && wanted(d) != replicas(app):
		return new(replicas(app))
	case !p.held() && p.autoscaled != nil && d.Annotations[annotationReplicas] != "":
		return new(wanted(d))
	default:
		return nil
	}
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
