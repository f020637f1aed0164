package policy

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/podsecurity"
	"github.com/fettle-dev/fettle/internal/podtemplate"
)

// rulePodTemplate is what Fettle requires of spec.podTemplate.
const rulePodTemplate = "podTemplate"

var podTemplatePath = field.NewPath("spec", "podTemplate")

// CheckPodTemplate returns the reasons why spec.podTemplate can't be used: mistakes in it, fields that Fettle relies on, and violations of
// the WebApp's own profile. Under Custom it must keep to the Pod Security level baseline. namespaceLabels are the labels of app's namespace.
func CheckPodTemplate(app *appsv1.WebApp, namespaceLabels map[string]string) ([]Violation, error) {
	var violations []Violation
	for _, err := range podtemplate.Validate(podTemplatePath, app.Spec.PodTemplate, podtemplate.OfWebApp(app)) {
		violations = append(violations, broken(rulePodTemplate, err))
	}
	if len(violations) > 0 {
		return violations, nil
	}
	profile := podsecurity.Effective(app, namespaceLabels)
	level := profile
	if profile == appsv1.ProfileCustom {
		level = appsv1.ProfileBaseline
	}
	return weakenedByPodTemplate(app, profile, level, rulePodTemplate, fmt.Sprintf("violates the security profile %s: %%s; remove it", level))
}

// weakenedByPodTemplate makes a violation, formatted by format, of each way in which spec.podTemplate weakens app's pod of that profile
// below the level. What spec.securityContext and spec.podSecurityContext weaken already is not repeated.
func weakenedByPodTemplate(app *appsv1.WebApp, profile, level appsv1.SecurityProfile, rule, format string) ([]Violation, error) {
	if !podtemplate.IsSet(app.Spec.PodTemplate) {
		return nil, nil
	}
	before, err := podsecurity.Violations(podsecurity.Confined(app, profile), level)
	if err != nil {
		return nil, err
	}
	pod, err := podsecurity.WithPodTemplate(app, profile)
	if err != nil {
		return nil, err
	}
	after, err := podsecurity.Violations(pod, level)
	if err != nil {
		return nil, err
	}
	var violations []Violation
	for _, sentence := range after {
		if !slices.Contains(before, sentence) {
			violations = append(violations, broken(rule, field.Forbidden(podTemplatePath, fmt.Sprintf(format, sentence))))
		}
	}
	return violations, nil
}

// checkAdded checks what spec.podTemplate adds against a policy. A pod template that can't be used is for CheckPodTemplate.
func checkAdded(p *appsv1.WebAppPolicy, app *appsv1.WebApp) ([]Violation, error) {
	if !podtemplate.IsSet(app.Spec.PodTemplate) || len(podtemplate.Validate(podTemplatePath, app.Spec.PodTemplate, podtemplate.OfWebApp(app))) > 0 {
		return nil, nil
	}
	want := p.Spec.RequireSecurityProfile
	violations, err := weakenedByPodTemplate(app, want, want, ruleRequireSecurityProfile,
		fmt.Sprintf("%s requires %s, which this violates: %%s; remove it", named(p, ruleRequireSecurityProfile), want))
	if err != nil {
		return nil, err
	}
	pod, err := podsecurity.WithPodTemplate(app, want)
	if err != nil {
		return nil, err
	}
	return append(violations, checkContents(p, podTemplatePath.Child("spec"), pod)...), nil
}

// checkContents checks images and limits of the containers and volumes that a pod template adds.
func checkContents(p *appsv1.WebAppPolicy, path *field.Path, pod *corev1.PodSpec) []Violation {
	violations := checkImages(p, path, pod, appsv1.MainContainer)
	eachContainer(path, pod, appsv1.MainContainer, func(at *field.Path, c *corev1.Container) {
		violations = append(violations, missingLimits(p, at.Child("resources", "limits"), c.Resources.Limits)...)
	})
	return violations
}

// checkImages checks all images of a pod but that of the main container.
func checkImages(p *appsv1.WebAppPolicy, path *field.Path, pod *corev1.PodSpec, main string) (violations []Violation) {
	eachContainer(path, pod, main, func(at *field.Path, c *corev1.Container) {
		violations = append(violations, CheckRegistry(p, at.Child("image"), c.Image)...)
	})
	for i := range pod.Volumes {
		if v := &pod.Volumes[i]; v.Image != nil {
			violations = append(violations, CheckRegistry(p, path.Child("volumes").Key(v.Name).Child("image", "reference"), v.Image.Reference)...)
		}
	}
	return violations
}

// eachContainer calls f with each container but the main one, which is checked by the fields of the spec.
func eachContainer(path *field.Path, pod *corev1.PodSpec, main string, f func(*field.Path, *corev1.Container)) {
	for i := range pod.InitContainers {
		f(path.Child("initContainers").Key(pod.InitContainers[i].Name), &pod.InitContainers[i])
	}
	for i := range pod.Containers {
		if c := &pod.Containers[i]; c.Name != main {
			f(path.Child("containers").Key(c.Name), c)
		}
	}
}

// CheckDatabasePodTemplate returns the reasons why spec.podTemplate of a PostgreSQL can't be used: mistakes in it, fields that Fettle relies
// on, and violations of the profile Restricted.
func CheckDatabasePodTemplate(pg *databasev1alpha1.PostgreSQL) (field.ErrorList, error) {
	errs := podtemplate.Validate(podTemplatePath, pg.Spec.PodTemplate, podtemplate.OfPostgreSQL())
	if len(errs) > 0 || !podtemplate.IsSet(pg.Spec.PodTemplate) {
		return errs, nil
	}
	pod, err := databasePod(pg)
	if err != nil {
		return nil, err
	}
	sentences, err := podsecurity.Violations(pod, appsv1.ProfileRestricted)
	if err != nil {
		return nil, err
	}
	for _, sentence := range sentences {
		errs = append(errs, field.Forbidden(podTemplatePath, fmt.Sprintf("violates the security profile Restricted: %s; remove it", sentence)))
	}
	return errs, nil
}

// CheckDatabaseImages checks the images that spec.podTemplate of a PostgreSQL adds against allowedRegistries.
func CheckDatabaseImages(p *appsv1.WebAppPolicy, pg *databasev1alpha1.PostgreSQL) []Violation {
	if !podtemplate.IsSet(pg.Spec.PodTemplate) {
		return nil
	}
	pod, err := databasePod(pg)
	if err != nil {
		return nil // CheckDatabasePodTemplate says why
	}
	return checkImages(p, podTemplatePath.Child("spec"), pod, databasev1alpha1.MainContainer)
}

// databasePod is the part of a PostgreSQL's pod that spec.podTemplate can weaken, with it.
func databasePod(pg *databasev1alpha1.PostgreSQL) (*corev1.PodSpec, error) {
	pod, container := podsecurity.Profile(appsv1.ProfileRestricted)
	main := corev1ac.Container().WithName(databasev1alpha1.MainContainer).WithSecurityContext(container)
	generated := corev1ac.PodTemplateSpec().WithSpec(corev1ac.PodSpec().WithSecurityContext(pod).WithContainers(main))
	merged, err := podtemplate.Merge(generated, pg.Spec.PodTemplate, container)
	if err != nil {
		return nil, fmt.Errorf("spec.podTemplate: %w", err)
	}
	return apply.Convert[corev1.PodSpec](merged.Spec), nil
}
