package webapp

import (
	"cmp"
	"maps"

	k8sappsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/optionalapi"
	"github.com/fettle-dev/fettle/internal/reconciler"
	"github.com/fettle-dev/fettle/internal/rollout"
)

// Labels and annotations of the children.
const (
	labelOwnerKind = reconciler.LabelOwnerKind
	labelOwnerName = reconciler.LabelOwnerName
	ownerKind      = "WebApp"

	// annotationRevision, on the pod template, is the hash of the template.
	annotationRevision = "fettle.dev/revision"
	// annotationReplicas, on the Deployment, is present while spec.replicas sets the number of pods, not an autoscaler.
	annotationReplicas = "fettle.dev/replicas"

	mainContainer = "app"
	mainPort      = "http"
	historyLimit  = 5
)

// inputs are the observed objects that determine the children of a WebApp.
type inputs struct {
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
	// missing are the optional APIs that the cluster lacks, by child kind.
	missing map[string]bool
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
	// autoscaled has the bounds of the autoscaler that sets the number of pods; nil while spec.replicas does.
	autoscaled *bounds
}

// desired returns the desired children of app, in the order in which they are applied.
func desired(app *appsv1.WebApp, in inputs) plan {
	p := plan{own: ownRevision(app, in), autoscaled: scalingBounds(app, in.foreign)}
	p.running = p.own
	if rolledBack(app, p.own, in.good) {
		p.running = *in.good
	}
	p.waitingForRefs = configMissing(in.config) != nil
	if !p.waitingForRefs {
		p.objects = append(p.objects, deployment(app, in, p))
	}
	p.objects = append(p.objects, service(app))
	p.objects = append(p.objects, optionalChildren(app, p, in.missing)...)
	if record := goodRevision(app, in, p.running); record != nil {
		p.objects = append(p.objects, controllerRevision(app, *record))
	}
	return p
}

// optionalChildren returns the children that exist only if the spec asks for them and the cluster has their APIs.
func optionalChildren(app *appsv1.WebApp, p plan, missing map[string]bool) []runtime.ApplyConfiguration {
	var objects []runtime.ApplyConfiguration
	if wantsPDB(app, p) {
		objects = append(objects, disruptionBudget(app))
	}
	if app.Spec.Autoscaling != nil {
		objects = append(objects, autoscaler(app))
	}
	if app.Spec.Ingress != nil {
		objects = append(objects, ingress(app))
	}
	if wantsNetworkPolicy(app) {
		objects = append(objects, networkPolicy(app))
	}
	if app.Spec.Gateway != nil && !missing[optionalapi.HTTPRoute.Kind] {
		objects = append(objects, httpRoute(app))
	}
	if app.Spec.Monitoring != nil && !missing[optionalapi.ServiceMonitor.Kind] {
		objects = append(objects, serviceMonitor(app))
	}
	return objects
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
		WithTemplate(withVersions(p.running.annotated(), in.versionedNames))
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

func service(app *appsv1.WebApp) *corev1ac.ServiceApplyConfiguration {
	spec := corev1ac.ServiceSpec().
		WithType(app.Spec.Service.Type).
		WithSelector(selector(app)).
		WithPorts(corev1ac.ServicePort().
			WithName(mainPort).WithProtocol("TCP").WithPort(servicePort(app)).WithTargetPort(intstr.FromString(mainPort)))
	for _, p := range app.Spec.Service.ExtraPorts {
		spec.WithPorts(corev1ac.ServicePort().
			WithName(p.Name).WithProtocol("TCP").WithPort(p.Port).WithTargetPort(intstr.FromString(targetPort(app, p))))
	}
	return corev1ac.Service(app.Name, app.Namespace).
		WithLabels(labels(app)).
		WithAnnotations(app.Spec.Service.Annotations).
		WithSpec(spec)
}

// labels of every child. "app" is for people who select by it; Fettle does not use it.
func labels(app *appsv1.WebApp) map[string]string {
	l := map[string]string{
		"app":                          app.Name,
		"app.kubernetes.io/name":       app.Name,
		"app.kubernetes.io/instance":   app.Name,
		"app.kubernetes.io/component":  "webapp",
		"app.kubernetes.io/managed-by": "fettle",
	}
	maps.Copy(l, selector(app))
	return l
}

// selector of the pods. It is unique to the WebApp and never changes, since the selector of a Deployment is immutable.
func selector(app *appsv1.WebApp) map[string]string {
	return map[string]string{labelOwnerKind: ownerKind, labelOwnerName: app.Name}
}

func replicas(app *appsv1.WebApp) int32 {
	if app.Spec.Replicas == nil {
		return 1
	}
	return *app.Spec.Replicas
}

func servicePort(app *appsv1.WebApp) int32 {
	if p := app.Spec.Service.Port; p != 0 {
		return p
	}
	return app.Spec.Port
}
