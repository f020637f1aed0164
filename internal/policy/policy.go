// Package policy decides whether a WebApp complies with a WebAppPolicy and with its own security profile. It is pure: the webhook
// uses it for changes of WebApps, the controller of WebAppPolicies for existing ones.
package policy

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/podsecurity"
)

// WebhookName is the name of the webhook for WebApps in every ValidatingWebhookConfiguration.
const WebhookName = "webapps.apps.fettle.dev"

// Rules of a policy, by the names of their fields.
const (
	ruleAllowedRegistries      = "allowedRegistries"
	ruleMaxReplicas            = "maxReplicas"
	ruleRequireLimits          = "requireLimits"
	ruleRequireSecurityProfile = "requireSecurityProfile"
	// ruleSecurityProfile is spec.securityProfile of the WebApp itself.
	ruleSecurityProfile = "securityProfile"
)

// limited are the resources that requireLimits covers.
var limited = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// Violation is a rule that a field of a WebApp violates. Its text names the field, the rule and the policy, and says what to do.
type Violation struct {
	Rule string
	*field.Error
}

// New returns the violations that an update introduces or makes worse, such as a number of pods above the limit that grows.
// A violation that stays as it was, or becomes smaller, does not block other changes.
func New(was, is []Violation) []Violation {
	return slices.DeleteFunc(slices.Clone(is), func(v Violation) bool {
		return slices.ContainsFunc(was, func(w Violation) bool { return w.Rule == v.Rule && !worse(w, v) })
	})
}

func worse(was, is Violation) bool {
	before, counted := was.BadValue.(int32)
	if after, ok := is.BadValue.(int32); ok && counted {
		return after > before // spec.replicas and spec.autoscaling.maxReplicas stand for each other
	}
	return was.Field != is.Field || was.BadValue != is.BadValue || was.Detail != is.Detail
}

// Selector returns spec.namespaceSelector as a compiled selector. If it is invalid, the error says why, and the selector matches
// every namespace: a mistake in a policy must not disable it.
func Selector(p *appsv1.WebAppPolicy) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(&p.Spec.NamespaceSelector)
	if err != nil {
		return labels.Everything(), fmt.Errorf("spec.namespaceSelector: %w", err)
	}
	return selector, nil
}

// Check returns all rules of the policy that app violates. It ignores namespaceSelector; namespaceLabels are the labels of app's
// namespace.
func Check(p *appsv1.WebAppPolicy, app *appsv1.WebApp, namespaceLabels map[string]string) ([]Violation, error) {
	spec := field.NewPath("spec")
	violations := CheckRegistry(p, spec.Child("image"), app.Spec.Image)
	if a := app.Spec.Autoscaling; a != nil { // spec.replicas is ignored then
		violations = append(violations, CheckReplicas(p, spec.Child("autoscaling", "maxReplicas"), a.MaxReplicas)...)
	} else if app.Spec.Replicas != nil {
		violations = append(violations, CheckReplicas(p, spec.Child("replicas"), *app.Spec.Replicas)...)
	}
	violations = append(violations, missingLimits(p, spec.Child("resources", "limits"), app.Spec.Resources.Limits)...)
	confinement, err := checkProfile(p, spec, app, namespaceLabels)
	if err != nil {
		return nil, err
	}
	added, err := checkAdded(p, app)
	if err != nil {
		return nil, err
	}
	return append(append(violations, confinement...), added...), nil
}

// CheckReplicas checks a number of pods against maxReplicas.
func CheckReplicas(p *appsv1.WebAppPolicy, path *field.Path, replicas int32) []Violation {
	if p.Spec.MaxReplicas == nil || replicas <= *p.Spec.MaxReplicas {
		return nil
	}
	return []Violation{broken(ruleMaxReplicas, field.Invalid(path, replicas,
		fmt.Sprintf("%s allows at most %d; lower it", named(p, ruleMaxReplicas), *p.Spec.MaxReplicas)))}
}

// CheckRegistry checks an image against allowedRegistries.
func CheckRegistry(p *appsv1.WebAppPolicy, path *field.Path, image string) []Violation {
	if len(p.Spec.AllowedRegistries) == 0 || allowedBy(p.Spec.AllowedRegistries, image) {
		return nil
	}
	return []Violation{broken(ruleAllowedRegistries, field.Invalid(path, image,
		fmt.Sprintf("%s allows only images from %s; use one of those", named(p, ruleAllowedRegistries), list(p.Spec.AllowedRegistries))))}
}

// missingLimits checks the limits of a container against requireLimits.
func missingLimits(p *appsv1.WebAppPolicy, path *field.Path, limits corev1.ResourceList) []Violation {
	if !p.Spec.RequireLimits {
		return nil
	}
	var violations []Violation
	for _, resource := range limited {
		if limit := limits[resource]; limit.IsZero() { // zero means no limit
			violations = append(violations, broken(ruleRequireLimits, field.Required(path.Child(string(resource)),
				named(p, ruleRequireLimits)+" requires a limit; set one")))
		}
	}
	return violations
}

func checkProfile(p *appsv1.WebAppPolicy, spec *field.Path, app *appsv1.WebApp, namespaceLabels map[string]string) ([]Violation, error) {
	want := p.Spec.RequireSecurityProfile
	has := podsecurity.Effective(app, namespaceLabels)
	if !podsecurity.Satisfies(has, want) {
		return []Violation{broken(ruleRequireSecurityProfile, field.Invalid(spec.Child("securityProfile"), string(has),
			fmt.Sprintf("%s requires %s; set it", named(p, ruleRequireSecurityProfile), want)))}, nil
	}
	return weakened(app, want, ruleRequireSecurityProfile, fmt.Sprintf(
		"%s requires %s, which this violates: %%s; remove it here or in spec.podSecurityContext", named(p, ruleRequireSecurityProfile), want))
}

// CheckProfile returns the violations of the WebApp's own profile by spec.securityContext and spec.podSecurityContext.
// namespaceLabels are the labels of app's namespace.
func CheckProfile(app *appsv1.WebApp, namespaceLabels map[string]string) ([]Violation, error) {
	has := podsecurity.Effective(app, namespaceLabels)
	return weakened(app, has, ruleSecurityProfile, fmt.Sprintf(
		"violates the security profile %s: %%s; remove it here or in spec.podSecurityContext, or set securityProfile: Custom", has))
}

// weakened makes a violation, formatted by format, of each way in which spec.securityContext and spec.podSecurityContext weaken the
// profile want.
func weakened(app *appsv1.WebApp, want appsv1.SecurityProfile, rule, format string) ([]Violation, error) {
	if app.Spec.SecurityContext == nil && app.Spec.PodSecurityContext == nil {
		return nil, nil // the profile's own values have no violations
	}
	sentences, err := podsecurity.Violations(podsecurity.Confined(app, want), want)
	if err != nil {
		return nil, err
	}
	var violations []Violation
	for _, sentence := range sentences {
		violations = append(violations, broken(rule, field.Forbidden(field.NewPath("spec", "securityContext"), fmt.Sprintf(format, sentence))))
	}
	return violations, nil
}

func broken(rule string, err *field.Error) Violation { return Violation{Rule: rule, Error: err} }

func named(p *appsv1.WebAppPolicy, rule string) string {
	return fmt.Sprintf("%s of WebAppPolicy %q", rule, p.Name)
}
