// Package policy decides whether a WebApp keeps to a WebAppPolicy. It is pure: the webhook asks before a WebApp changes,
// and the controller of WebAppPolicies about those that exist.
package policy

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/profile"
)

// Rules of a policy, by the names of their fields.
const (
	RuleAllowedRegistries      = "allowedRegistries"
	RuleMaxReplicas            = "maxReplicas"
	RuleRequireLimits          = "requireLimits"
	RuleRequireSecurityProfile = "requireSecurityProfile"
)

// limited are the resources of which requireLimits asks for a limit.
var limited = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// Violation is one rule that one field of a WebApp breaks. Its text names the field, the rule and the policy, and says
// what to do.
type Violation struct {
	Rule string
	*field.Error
}

// Selects reports whether the policy holds for a namespace with these labels. The error says what is wrong with the
// selector; such a policy holds nowhere.
func Selects(p *appsv1.WebAppPolicy, namespaceLabels map[string]string) (bool, error) {
	selector, err := Selector(p)
	if err != nil {
		return false, err
	}
	return selector.Matches(labels.Set(namespaceLabels)), nil
}

// Selector returns spec.namespaceSelector in a form that can be asked many times.
func Selector(p *appsv1.WebAppPolicy) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(&p.Spec.NamespaceSelector)
	if err != nil {
		return nil, fmt.Errorf("spec.namespaceSelector: %w", err)
	}
	return selector, nil
}

// Check returns all rules of the policy that app breaks. It does not look at namespaceSelector; namespaceLabels are the
// labels of app's namespace.
func Check(p *appsv1.WebAppPolicy, app *appsv1.WebApp, namespaceLabels map[string]string) ([]Violation, error) {
	spec := field.NewPath("spec")
	violations := checkRegistry(p, spec.Child("image"), app.Spec.Image)
	if a := app.Spec.Autoscaling; a != nil { // spec.replicas is ignored then
		violations = append(violations, CheckReplicas(p, spec.Child("autoscaling", "maxReplicas"), a.MaxReplicas)...)
	} else if app.Spec.Replicas != nil {
		violations = append(violations, CheckReplicas(p, spec.Child("replicas"), *app.Spec.Replicas)...)
	}
	violations = append(violations, checkLimits(p, spec.Child("resources", "limits"), app)...)
	confinement, err := checkProfile(p, spec, app, namespaceLabels)
	if err != nil {
		return nil, err
	}
	return append(violations, confinement...), nil
}

// CheckReplicas holds a number of pods to maxReplicas.
func CheckReplicas(p *appsv1.WebAppPolicy, path *field.Path, replicas int32) []Violation {
	if p.Spec.MaxReplicas == nil || replicas <= *p.Spec.MaxReplicas {
		return nil
	}
	return []Violation{broken(RuleMaxReplicas, field.Invalid(path, replicas,
		fmt.Sprintf("%s allows at most %d; lower it", named(p, RuleMaxReplicas), *p.Spec.MaxReplicas)))}
}

func checkRegistry(p *appsv1.WebAppPolicy, path *field.Path, image string) []Violation {
	if len(p.Spec.AllowedRegistries) == 0 || allowedBy(p.Spec.AllowedRegistries, image) {
		return nil
	}
	return []Violation{broken(RuleAllowedRegistries, field.Invalid(path, image,
		fmt.Sprintf("%s allows only images from %s; use one of those", named(p, RuleAllowedRegistries), list(p.Spec.AllowedRegistries))))}
}

func checkLimits(p *appsv1.WebAppPolicy, path *field.Path, app *appsv1.WebApp) []Violation {
	if !p.Spec.RequireLimits {
		return nil
	}
	var violations []Violation
	for _, resource := range limited {
		if limit := app.Spec.Resources.Limits[resource]; limit.IsZero() { // zero means no limit
			violations = append(violations, broken(RuleRequireLimits, field.Required(path.Child(string(resource)),
				named(p, RuleRequireLimits)+" asks for a limit; set one")))
		}
	}
	return violations
}

func checkProfile(p *appsv1.WebAppPolicy, spec *field.Path, app *appsv1.WebApp, namespaceLabels map[string]string) ([]Violation, error) {
	want := p.Spec.RequireSecurityProfile
	has := profile.Effective(app, namespaceLabels)
	if !profile.Satisfies(has, want) {
		return []Violation{broken(RuleRequireSecurityProfile, field.Invalid(spec.Child("securityProfile"), string(has),
			fmt.Sprintf("%s asks for %s; set it", named(p, RuleRequireSecurityProfile), want)))}, nil
	}
	weak, err := profile.Weakened(app, want)
	if err != nil {
		return nil, err
	}
	var violations []Violation
	for _, sentence := range weak {
		violations = append(violations, broken(RuleRequireSecurityProfile, field.Forbidden(spec.Child("securityContext"),
			fmt.Sprintf("%s asks for %s, from which this takes away: %s; remove it here or in spec.podSecurityContext",
				named(p, RuleRequireSecurityProfile), want, sentence))))
	}
	return violations, nil
}

func broken(rule string, err *field.Error) Violation { return Violation{Rule: rule, Error: err} }

func named(p *appsv1.WebAppPolicy, rule string) string {
	return fmt.Sprintf("%s of WebAppPolicy %q", rule, p.Name)
}
