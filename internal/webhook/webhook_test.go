package webhook_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/testenv"
	"github.com/fettle-dev/fettle/internal/webhook"
)

var env *testenv.Env

// TestMain starts an API server that calls the webhooks, and a manager that serves them with the operator's own rights.
func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "webhook test:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	log.SetLogger(zap.New(zap.WriteTo(io.Discard)))
	var control *envtest.Environment
	started, err := testenv.Start(testenv.Options{Fast: true, Configure: func(e *envtest.Environment) {
		e.WebhookInstallOptions.Paths = []string{filepath.Join("..", "..", "config", "webhook", "manifests.yaml")}
		control = e
	}})
	if err != nil {
		return 1, err
	}
	defer func() { _ = started.Stop() }()
	env = started
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	mgr, err := newManager(ctx, control.WebhookInstallOptions)
	if err != nil {
		return 1, err
	}
	wg.Go(func() {
		if err := mgr.Start(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "webhook test: manager:", err)
		}
	})
	return m.Run(), nil
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	_ = clientgoscheme.AddToScheme(scheme)
	_ = appsv1.AddToScheme(scheme)
	return scheme
}

func newManager(ctx context.Context, serving envtest.WebhookInstallOptions) (ctrl.Manager, error) {
	mgr, err := ctrl.NewManager(env.Operator, ctrl.Options{
		Scheme:  newScheme(),
		Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: ctrlwebhook.NewServer(ctrlwebhook.Options{
			Host: serving.LocalServingHost, Port: serving.LocalServingPort, CertDir: serving.LocalServingCertDir,
		}),
	})
	if err != nil {
		return nil, err
	}
	return mgr, webhook.Setup(ctx, mgr)
}

// user is a client that collects the warnings it is given.
type user struct {
	client.Client
	mu       sync.Mutex
	warnings []string
}

func (u *user) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.warnings = append(u.warnings, text)
}

// warned returns the warnings since it was last called.
func (u *user) warned() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := strings.Join(u.warnings, "\n")
	u.warnings = nil
	return all
}

func newUser(t *testing.T) *user {
	t.Helper()
	u := &user{}
	config := rest.CopyConfig(env.Admin)
	config.WarningHandlerWithContext = u
	c, err := client.New(config, client.Options{Scheme: newScheme()})
	if err != nil {
		t.Fatal(err)
	}
	u.Client = c
	return u
}

func newApp(namespace, name string) *appsv1.WebApp {
	return &appsv1.WebApp{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       appsv1.WebAppSpec{Image: "nginx:1.25"},
	}
}

// newPolicy makes a policy for one namespace, and waits until the webhook knows it: a dry run is then answered as want says.
func newPolicy(t *testing.T, u *user, namespace string, spec appsv1.WebAppPolicySpec) *appsv1.WebAppPolicy {
	t.Helper()
	spec.NamespaceSelector.MatchLabels = map[string]string{"kubernetes.io/metadata.name": namespace}
	p := &appsv1.WebAppPolicy{ObjectMeta: metav1.ObjectMeta{Name: "policy-" + namespace}, Spec: spec}
	eventually(t, "the webhooks answer", func() error { return u.Create(t.Context(), p) })
	t.Cleanup(func() { _ = u.Delete(context.Background(), p) })
	eventually(t, "the webhook knows the policy", func() error {
		u.warned()
		probe := newApp(namespace, "probe")
		probe.Spec.Image, probe.Spec.Replicas = "probe.invalid/probe", new(int32(9999))
		err := u.Create(t.Context(), probe, client.DryRunAll)
		if text := u.warned() + fmt.Sprint(err); !strings.Contains(text, p.Name) {
			return fmt.Errorf("it says %s", text)
		}
		return nil
	})
	u.warned()
	return p
}

func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	t.Fatalf("%s: not after 20 s: %v", what, err)
}

func seedRules() appsv1.WebAppPolicySpec {
	return appsv1.WebAppPolicySpec{
		Action: appsv1.ActionEnforce, MaxReplicas: new(int32(10)), RequireLimits: true,
		AllowedRegistries: []string{"registry.company.com/"},
	}
}

func TestEnforceRefusesAllAtOnce(t *testing.T) {
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
	var status apierrors.APIStatus = err.(*apierrors.StatusError)
	if causes := status.Status().Details.Causes; len(causes) != 4 {
		t.Errorf("%d causes, want one for each of 4 fields: %v", len(causes), causes)
	}
	allowed := newApp(env.Namespace(t), "web")
	allowed.Spec.Replicas = new(int32(11))
	if err := u.Create(t.Context(), allowed); err != nil {
		t.Errorf("create in a namespace that the policy does not select: %v", err)
	}
}

func TestWarnAdmitsWithWarnings(t *testing.T) {
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

func TestExistingWebAppIsHeldToThePolicyWhenItsSpecChanges(t *testing.T) {
	u, namespace := newUser(t), env.Namespace(t)
	app := newApp(namespace, "web")
	app.Spec.Replicas = new(int32(20))
	app.Finalizers = []string{"test.fettle.dev/hold"}
	eventually(t, "create without a policy", func() error { return u.Create(t.Context(), app) })
	newPolicy(t, u, namespace, appsv1.WebAppPolicySpec{Action: appsv1.ActionEnforce, MaxReplicas: new(int32(10))})

	before := app.DeepCopy()
	app.Labels = map[string]string{"team": "shop"}
	if err := u.Patch(t.Context(), app, client.MergeFrom(before)); err != nil {
		t.Errorf("label: %v", err)
	}
	before = app.DeepCopy()
	app.Status.Phase = appsv1.PhaseRunning
	if err := u.Status().Patch(t.Context(), app, client.MergeFrom(before)); err != nil {
		t.Errorf("status: %v", err)
	}
	before = app.DeepCopy()
	app.Spec.Image = "nginx:1.27"
	if err := u.Patch(t.Context(), app, client.MergeFrom(before)); !apierrors.IsInvalid(err) {
		t.Errorf("change the image only: %v, want Invalid", err)
	}
	app = before.DeepCopy()
	app.Spec.Image, app.Spec.Replicas = "nginx:1.27", new(int32(10))
	if err := u.Patch(t.Context(), app, client.MergeFrom(before)); err != nil {
		t.Errorf("change the image and keep to the policy: %v", err)
	}
}

func TestDeletionIsNeverHindered(t *testing.T) {
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

func TestScaleIsHeldToMaxReplicas(t *testing.T) {
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

func TestNamespaceThatIsNotCachedYetIsNotFree(t *testing.T) {
	u := newUser(t)
	all := &appsv1.WebAppPolicy{ObjectMeta: metav1.ObjectMeta{Name: "all-strict"}, Spec: appsv1.WebAppPolicySpec{
		NamespaceSelector: metav1.LabelSelector{MatchLabels: map[string]string{"strict": "yes"}},
		Action:            appsv1.ActionEnforce, MaxReplicas: new(int32(0)),
	}}
	eventually(t, "create the policy", func() error { return u.Create(t.Context(), all) })
	t.Cleanup(func() { _ = u.Delete(context.Background(), all) })
	for i := range 20 {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("strict-%d-%d", time.Now().UnixNano(), i), Labels: map[string]string{"strict": "yes"},
		}}
		if err := u.Create(t.Context(), namespace); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			eventually(t, "the webhook knows the policy", func() error {
				if err := u.Create(t.Context(), newApp(namespace.Name, "web"), client.DryRunAll); !apierrors.IsInvalid(err) {
					return fmt.Errorf("create: %w", err)
				}
				return nil
			})
		}
		if err := u.Create(t.Context(), newApp(namespace.Name, "web")); !apierrors.IsInvalid(err) {
			t.Errorf("create at once in a new namespace: %v, want Invalid", err)
		}
	}
}

func TestSelectorsOfPolicies(t *testing.T) {
	u := newUser(t)
	for _, c := range []struct {
		name     string
		selector metav1.LabelSelector
		refused  string // "" where it is accepted
	}{
		{name: "all namespaces"},
		{name: "labels", selector: metav1.LabelSelector{MatchLabels: map[string]string{"env": "production"}}},
		{name: "expression", selector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "env", Operator: metav1.LabelSelectorOpIn, Values: []string{"production"}},
		}}},
		{name: "unknown operator", refused: "spec.namespaceSelector.matchExpressions[0].operator", selector: metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: "Near"}},
		}},
		{name: "In without values", refused: "spec.namespaceSelector.matchExpressions[0].values", selector: metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: metav1.LabelSelectorOpIn}},
		}},
		{name: "impossible value", refused: "spec.namespaceSelector.matchLabels", selector: metav1.LabelSelector{
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
		case c.refused == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.refused != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%s: %v, want Invalid that names %s", c.name, err, c.refused)
		}
	}
}
