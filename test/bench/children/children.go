// Package children holds the manifests that contenders without their own renderer write for a WebApp: the same labels and specs as
// Fettle's. The benchmark fails if Fettle writes others, so all contenders write the same.
package children

import (
	"maps"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
)

// All returns the children of app, controlled by it.
func All(app *appsv1.WebApp) []client.Object {
	return []client.Object{deployment(app), service(app)}
}

// Status returns the status of an app whose children are written and that has no replicas.
func Status(app *appsv1.WebApp, now metav1.Time) appsv1.WebAppStatus {
	condition := func(kind, reason, message string) metav1.Condition {
		return metav1.Condition{
			Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message,
			ObservedGeneration: app.Generation, LastTransitionTime: now,
		}
	}
	const none = "spec.replicas is 0: no pod is wanted"
	return appsv1.WebAppStatus{
		ObservedGeneration: app.Generation,
		Phase:              appsv1.PhaseRunning,
		Image:              app.Spec.Image,
		Selector:           metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: selector(app)}),
		URL:                "http://" + app.Name + "." + app.Namespace + ".svc",
		Conditions: []metav1.Condition{
			condition("Ready", appsv1.ReasonScaledToZero, none),
			condition(appsv1.WebAppApplied, appsv1.ReasonApplied, "all children are as the spec asks"),
			condition(appsv1.WebAppAvailable, appsv1.ReasonScaledToZero, none),
		},
	}
}

func meta(app *appsv1.WebApp) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: app.Namespace, Name: app.Name, Labels: labels(app),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(app, appsv1.GroupVersion.WithKind("WebApp"))},
	}
}

func labels(app *appsv1.WebApp) map[string]string {
	all := map[string]string{
		"app":                          app.Name,
		"app.kubernetes.io/name":       app.Name,
		"app.kubernetes.io/instance":   app.Name,
		"app.kubernetes.io/component":  "webapp",
		"app.kubernetes.io/managed-by": "fettle",
	}
	maps.Copy(all, selector(app))
	return all
}

func selector(app *appsv1.WebApp) map[string]string {
	return map[string]string{"fettle.dev/owner-kind": "WebApp", "fettle.dev/owner-name": app.Name}
}

func deployment(app *appsv1.WebApp) *k8sappsv1.Deployment {
	spread := func(key string) corev1.TopologySpreadConstraint {
		return corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector:  &metav1.LabelSelector{MatchLabels: selector(app)},
			MatchLabelKeys: []string{k8sappsv1.DefaultDeploymentUniqueLabelKey},
		}
	}
	return &k8sappsv1.Deployment{
		ObjectMeta: meta(app),
		Spec: k8sappsv1.DeploymentSpec{
			Replicas:                app.Spec.Replicas,
			Selector:                &metav1.LabelSelector{MatchLabels: selector(app)},
			RevisionHistoryLimit:    new(int32(5)),
			ProgressDeadlineSeconds: new(int32(600)),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels(app)},
				Spec: corev1.PodSpec{
					ServiceAccountName:           "default",
					AutomountServiceAccountToken: new(false),
					EnableServiceLinks:           new(false),
					SecurityContext: &corev1.PodSecurityContext{
						SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
					Containers: []corev1.Container{{
						Name: "app", Image: app.Spec.Image,
						Ports:           []corev1.ContainerPort{{Name: "http", Protocol: corev1.ProtocolTCP, ContainerPort: app.Spec.Port}},
						ReadinessProbe:  &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("http")}}},
						SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false)},
					}},
					TopologySpreadConstraints: []corev1.TopologySpreadConstraint{
						spread(corev1.LabelHostname), spread(corev1.LabelTopologyZone),
					},
				},
			},
		},
	}
}

func service(app *appsv1.WebApp) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: meta(app),
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, Selector: selector(app),
			Ports: []corev1.ServicePort{{
				Name: "http", Protocol: corev1.ProtocolTCP, Port: app.Spec.Port, TargetPort: intstr.FromString("http"),
			}},
		},
	}
}
