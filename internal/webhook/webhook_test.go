package webhook_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/webhook"
)

func TestEnforce_rejectsWithAllViolations(t *testing.T) {
	u, namespace := newUser(t), env.Namespace(t)
	p := newPolicy(t, u, namespace, seedRules())
	app := newApp(namespace, "web")
	app.Spec.Replicas = new(int32(11))
	err := u.Create(t.Context(), app)
	if !apierrors.IsInvalid(err) {
		t.Fatalf("create: %v, want Invalid", err)
	}
	for _, part := range []string{
		`WebApp.apps.fettle.dev "web" is invalid`, `"` + p.Name + `"`,
		"spec.image: Invalid value: \"nginx:1.25\": allowedRegistries", "registry.company.com/; use one of those",
		"spec.replicas: Invalid value: 11: maxReplicas", "allows at most 10; lower it",
		"spec.resources.limits.cpu: Required value: requireLimits", "spec.resources.limits.memory: Required value",
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	if status, ok := errors.AsType[*apierrors.StatusError](err); !ok || len(status.Status().Details.Causes) != 4 {
		t.Errorf("causes of %#v: want one for each of 4 fields", err)
	}
	allowed := newApp(env.Namespace(t), "web")
	allowed.Spec.Replicas = new(int32(11))
	if err := u.Create(t.Context(), allowed); err != nil {
		t.Errorf("create in a namespace that the policy does not select: %v", err)
	}
}

func TestWarn_admitsWithWarnings(t *testing.T) {
	u, namespace := newUser(t), env.Namespace(t)
	rules := seedRules()
	rules.Action = appsv1.ActionWarn
	p := newPolicy(t, u, namespace, rules)
	app := newApp(namespace, "web")
	if err := u.Create(t.Context(), app); err != nil {
		t.Fatalf("create: %v", err)
	}
	warnings := u.warned()
	for _, part := range []string{p.Name, "spec.image", "spec.resources.limits.cpu", "spec.resources.limits.memory"} {
		if !strings.Contains(warnings, part) {
			t.Errorf("warnings %q do not say %q", warnings, part)
		}
	}
	if strings.Contains(warnings, "spec.replicas") {
		t.Errorf("warnings %q name a field that breaks no rule", warnings)
	}
	if slices.ContainsFunc(strings.Split(warnings, "\n"), func(w string) bool { return len(w) > 256 }) {
		t.Errorf("a warning has more than the 256 characters that are passed on: %q", warnings)
	}
}

// A WebApp that was there before a policy may change in all that the policy does not ask for, and come closer to it.
func TestUpdate_onlyNewOrWorseViolationsAreRejected(t *testing.T) {
	u, namespace := newUser(t), env.Namespace(t)
	app := newApp(namespace, "web")
	app.Spec.Replicas = new(int32(20))
	eventually(t, "create without a policy", func() error { return u.Create(t.Context(), app) })
	newPolicy(t, u, namespace, appsv1.WebAppPolicySpec{
		Action: appsv1.ActionEnforce, MaxReplicas: new(int32(10)), RequireLimits: true, AllowedRegistries: []string{"registry.company.com/"},
	})
	scale := func(n int32) error {
		body := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: n}}
		return u.SubResource("scale").Update(t.Context(), app, client.WithSubResourceBody(body))
	}
	patch := func(patch string) error {
		return u.Patch(t.Context(), app, client.RawPatch(types.MergePatchType, []byte(patch)))
	}
	for _, c := range []struct {
		what   string
		err    error
		reject bool
	}{
		{"label", patch(`{"metadata":{"labels":{"team":"shop"}}}`), false},
		{"pause", patch(`{"spec":{"paused":true}}`), false},
		{"scale 20 to 15", scale(15), false},
		{"scale 15 to 16", scale(16), true},
		{"replicas 15 to 16", patch(`{"spec":{"replicas":16}}`), true},
		{"autoscaling up to 12", patch(`{"spec":{"resources":{"requests":{"cpu":"1"}},"autoscaling":{"minReplicas":1,"maxReplicas":12,"targetCPUUtilizationPercentage":80}}}`), false},
		{"autoscaling up to 13", patch(`{"spec":{"autoscaling":{"maxReplicas":13}}}`), true},
		{"another image of a forbidden registry", patch(`{"spec":{"image":"nginx:1.27"}}`), true},
		{"an image of the allowed registry", patch(`{"spec":{"image":"registry.company.com/nginx:1.27"}}`), false},
		{"back to a forbidden registry", patch(`{"spec":{"image":"nginx:1.25"}}`), true},
		{"one of two missing limits", patch(`{"spec":{"resources":{"limits":{"cpu":"1"}}}}`), false},
		{"remove that limit again", patch(`{"spec":{"resources":{"limits":{"cpu":null}}}}`), true},
		{"stop", patch(`{"spec":{"autoscaling":null,"replicas":0}}`), false},
	} {
		if rejected := apierrors.IsInvalid(c.err); rejected != c.reject || !rejected && c.err != nil {
			t.Errorf("%s: %v, want it rejected: %t", c.what, c.err, c.reject)
		}
	}
}

// What a WebApp sets itself must not take away from the profile that it has.
func TestSecurityProfile_cannotBeWeakened(t *testing.T) {
	u, namespace := newUser(t), env.Namespace(t)
	unconfined := &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
	for name, c := range map[string]struct {
		profile   appsv1.SecurityProfile
		pod       *corev1.PodSecurityContext
		container *corev1.SecurityContext
		says      string // "" where it is accepted
	}{
		"root in a restricted pod": {
			appsv1.ProfileRestricted, &corev1.PodSecurityContext{RunAsNonRoot: new(false), RunAsUser: new(int64(0))}, nil, "runAsNonRoot",
		},
		"capability under the default": {
			"", nil, &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}}}, "SYS_ADMIN",
		},
		"seccomp under Baseline":    {appsv1.ProfileBaseline, nil, &corev1.SecurityContext{SeccompProfile: unconfined}, "seccompProfile"},
		"sysctl under Baseline":     {appsv1.ProfileBaseline, &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "kernel.msgmax", Value: "1"}}}, nil, "kernel.msgmax"},
		"all of it under Custom":    {appsv1.ProfileCustom, &corev1.PodSecurityContext{RunAsUser: new(int64(0))}, &corev1.SecurityContext{SeccompProfile: unconfined}, ""},
		"harmless under Restricted": {appsv1.ProfileRestricted, &corev1.PodSecurityContext{RunAsUser: new(int64(1000))}, nil, ""},
	} {
		app := newApp(namespace, "web")
		app.Spec.SecurityProfile, app.Spec.PodSecurityContext, app.Spec.SecurityContext = c.profile, c.pod, c.container
		var err error
		eventually(t, "the webhooks answer", func() error {
			if err = u.Create(t.Context(), app, client.DryRunAll); apierrors.IsInternalError(err) {
				return err
			}
			return nil
		})
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.says != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "set securityProfile: Custom")):
			t.Errorf("%s: %v, want it rejected with what is wrong (%s) and what to do", name, err, c.says)
		}
	}
}

func TestPostgreSQL_imageIsHeldToAllowedRegistries(t *testing.T) {
	u, namespace := newUser(t), env.Namespace(t)
	newPolicy(t, u, namespace, appsv1.WebAppPolicySpec{Action: appsv1.ActionEnforce, AllowedRegistries: []string{"registry.company.com/"}})
	database := func(image string) error {
		pg := &databasev1alpha1.PostgreSQL{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "db"}, Spec: databasev1alpha1.PostgreSQLSpec{
			Version: "17", Storage: resource.MustParse("1Gi"), Image: image,
		}}
		return u.Create(t.Context(), pg, client.DryRunAll)
	}
	for image, reject := range map[string]bool{"": true, "ghcr.io/evil/postgres:17": true, "registry.company.com/postgres:17": false} {
		err := database(image)
		if rejected := apierrors.IsInvalid(err) && strings.Contains(err.Error(), "spec.image"); rejected != reject || !rejected && err != nil {
			t.Errorf("image %q: %v, want it rejected: %t", image, err, reject)
		}
	}
}

func TestDeletion_neverBlocked(t *testing.T) {
	u, namespace := newUser(t), env.Namespace(t)
	app := newApp(namespace, "web")
	app.Finalizers = []string{"test.fettle.dev/hold"}
	eventually(t, "create without a policy", func() error { return u.Create(t.Context(), app) })
	newPolicy(t, u, namespace, seedRules())
	if err := u.Delete(t.Context(), app); err != nil {
		t.Fatalf("delete: %v", err)
	}
	if err := u.Get(t.Context(), client.ObjectKeyFromObject(app), app); err != nil || app.DeletionTimestamp == nil {
		t.Fatalf("get while it is being deleted: %v, deletionTimestamp %v", err, app.DeletionTimestamp)
	}
	app.Finalizers = nil
	app.Spec.Image = "nginx:1.27" // an Update that does more than remove the finalizer
	if err := u.Update(t.Context(), app); err != nil {
		t.Fatalf("remove the finalizer: %v", err)
	}
	if err := u.Get(t.Context(), client.ObjectKeyFromObject(app), app); !apierrors.IsNotFound(err) {
		t.Errorf("get after the finalizer was removed: %v", err)
	}
}

func TestScale_maxReplicas(t *testing.T) {
	u, namespace := newUser(t), env.Namespace(t)
	app := newApp(namespace, "web")
	eventually(t, "create without a policy", func() error { return u.Create(t.Context(), app) })
	p := newPolicy(t, u, namespace, appsv1.WebAppPolicySpec{Action: appsv1.ActionEnforce, MaxReplicas: new(int32(10))})
	scale := func(n int32) error {
		body := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: n}}
		return u.SubResource("scale").Update(t.Context(), app, client.WithSubResourceBody(body))
	}
	err := scale(11)
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), p.Name) ||
		!strings.Contains(err.Error(), "spec.replicas: Invalid value: 11: maxReplicas") {
		t.Errorf("scale to 11: %v, want Invalid with the field, the rule and the policy", err)
	}
	if err := scale(10); err != nil {
		t.Errorf("scale to 10: %v", err)
	}
	if err := u.Get(t.Context(), client.ObjectKeyFromObject(app), app); err != nil || *app.Spec.Replicas != 10 {
		t.Errorf("after the scaling: %v replicas, %v", *app.Spec.Replicas, err)
	}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":12}}`))
	if err := u.SubResource("scale").Patch(t.Context(), app, patch, client.WithSubResourceBody(&autoscalingv1.Scale{})); !apierrors.IsInvalid(err) {
		t.Errorf("patch the scale to 12, as kubectl scale does: %v, want Invalid", err)
	}
}

// TestNamespace_notCachedYet asks with a cache that knows no namespace, as one does for a moment after a
// namespace was made.
func TestNamespace_notCachedYet(t *testing.T) {
	u := newUser(t)
	behind, err := cache.New(env.Operator, cache.Options{Scheme: newScheme(), ByObject: map[client.Object]cache.ByObject{
		&corev1.Namespace{}: {Label: labels.SelectorFromSet(labels.Set{"no-namespace": "has-this"})},
	}})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = behind.Start(t.Context()) }()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "new-", Labels: map[string]string{"strict": "yes"}}}
	if err := u.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	got, err := webhook.NamespaceLabels(t.Context(), behind, u, namespace.Name)
	if err != nil || got["strict"] != "yes" {
		t.Errorf("labels of a namespace that is not cached yet: %v, %v", got, err)
	}
	if _, err := webhook.NamespaceLabels(t.Context(), behind, u, "none-such"); !apierrors.IsNotFound(err) {
		t.Errorf("labels of a namespace that does not exist: %v, want NotFound", err)
	}
}

func TestPolicy_invalidSelectors(t *testing.T) {
	u := newUser(t)
	for _, c := range []struct {
		name     string
		selector metav1.LabelSelector
		rejected string // "" where it is accepted
	}{
		{name: "all namespaces"},
		{name: "labels", selector: metav1.LabelSelector{MatchLabels: map[string]string{"env": "production"}}},
		{name: "expression", selector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "env", Operator: metav1.LabelSelectorOpIn, Values: []string{"production"}},
		}}},
		{name: "unknown operator", rejected: "spec.namespaceSelector.matchExpressions[0].operator", selector: metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: "Near"}},
		}},
		{name: "In without values", rejected: "spec.namespaceSelector.matchExpressions[0].values", selector: metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: metav1.LabelSelectorOpIn}},
		}},
		{name: "impossible value", rejected: "spec.namespaceSelector.matchLabels", selector: metav1.LabelSelector{
			MatchLabels: map[string]string{"env": "not a label value!"},
		}},
	} {
		p := &appsv1.WebAppPolicy{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "selector-"},
			Spec:       appsv1.WebAppPolicySpec{NamespaceSelector: c.selector, RequireLimits: true},
		}
		var err error
		eventually(t, "the webhooks answer", func() error {
			if err = u.Create(t.Context(), p, client.DryRunAll); apierrors.IsInternalError(err) {
				return err
			}
			return nil
		})
		switch {
		case c.rejected == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.rejected != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.rejected)):
			t.Errorf("%s: %v, want Invalid that names %s", c.name, err, c.rejected)
		}
	}
}
