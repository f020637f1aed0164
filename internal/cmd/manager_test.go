package cmd

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	k8sappsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/testenv"
	"github.com/fettle-dev/fettle/test/audit"
)

func createAll(t *testing.T, c client.Client, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

// create creates a WebApp.
func create(t *testing.T, c client.Client, namespace, name string) *appsv1.WebApp {
	t.Helper()
	app := &appsv1.WebApp{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       appsv1.WebAppSpec{Image: "nginx:1.25"},
	}
	createAll(t, c, app)
	return app
}

func hasDeployment(t *testing.T, c client.Client, app *appsv1.WebApp) func() error {
	return func() error { return c.Get(t.Context(), client.ObjectKeyFromObject(app), &k8sappsv1.Deployment{}) }
}

func TestStandby_isReadyAndTakesOver(t *testing.T) {
	c, namespace := newAdmin(t), env.Namespace(t)
	elect := []string{"--webhooks=false", "--leader-elect", "--leader-elect-retry-period=500ms"}
	leader := startManager(t, elect...)
	leader.waitReady(t)
	if err := get(t, "http://"+leader.health+"/healthz", "", http.StatusOK); err != nil {
		t.Error(err)
	}
	eventually(t, "the leader reconciles", hasDeployment(t, c, create(t, c, namespace, "first")))

	standby := startManager(t, elect...)
	standby.waitReady(t)
	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: testenv.OperatorNamespace, Name: leaderElectionID}
	if err := c.Get(t.Context(), key, lease); err != nil {
		t.Fatal(err)
	}
	if held := *lease.Spec.LeaseDurationSeconds; held != 15 {
		t.Errorf("the lease duration is %d s, want 15", held)
	}
	holder := *lease.Spec.HolderIdentity

	start := time.Now()
	if took := leader.stop(t); took > 10*time.Second {
		t.Errorf("the leader took %s to exit", took)
	}
	eventually(t, "the standby reconciles", hasDeployment(t, c, create(t, c, namespace, "second")))
	if took := time.Since(start); took > 13*time.Second {
		t.Errorf("the standby became leader after %s: the lease of 15 s was not released", took)
	}
	if err := c.Get(t.Context(), key, lease); err != nil || *lease.Spec.HolderIdentity == holder {
		t.Errorf("the lease is still held by %s (%v)", holder, err)
	}
	standby.stop(t)
	if strings.Contains(standby.log.String(), "panic") {
		t.Error("the log contains a panic")
	}
}

// TestAgentPolicy_isInstalled checks that every installation has the policy that OLM's bundles cannot contain, as long as PostgreSQLs
// exist.
func TestAgentPolicy_isInstalled(t *testing.T) {
	c := newAdmin(t)
	startManager(t, "--webhooks=false").waitReady(t)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: policyOwner}, crd); err != nil {
		t.Fatal(err)
	}
	for _, object := range []client.Object{
		&admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{},
	} {
		eventually(t, "the policy and its binding", func() error { return c.Get(t.Context(), client.ObjectKey{Name: "fettle-agents"}, object) })
		if owners := object.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != crd.UID {
			t.Errorf("%T is owned by %v", object, owners)
		}
	}
	applied := 0
	counts := interceptor.NewClient(c, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			applied++
			return c.Apply(ctx, o, options...)
		},
	})
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "fettle-agents"}}
	for what, want := range map[string]int{"nothing differs": 0, "another client has weakened it": 1} {
		if want > 0 {
			patch := client.RawPatch(types.JSONPatchType, []byte(`[{"op": "replace", "path": "/spec/validations", "value": [{"expression": "true"}]}]`))
			if err := c.Patch(t.Context(), policy, patch); err != nil {
				t.Fatal(err)
			}
		}
		applied = 0
		if err := applyPolicies(t.Context(), counts, c); err != nil || applied != want {
			t.Errorf("%s: %d writes, not %d; %v", what, applied, want, err)
		}
	}
}

func TestMetrics_needAuthorization(t *testing.T) {
	c, namespace := newAdmin(t), env.Namespace(t)
	install(t, c, "rbac", "metrics_auth_role.yaml")
	install(t, c, "rbac", "metrics_reader_role.yaml")
	reader := token(t, c, namespace, "reader")
	other := token(t, c, namespace, "other")
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "metrics-reader-" + namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "fettle-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "reader"}},
	}
	createAll(t, c, binding)
	manager := startManager(t, "--webhooks=false", "--per-object-metrics")
	manager.waitReady(t)
	eventually(t, "the manager reconciles", hasDeployment(t, c, create(t, c, namespace, "web")))
	url := "https://" + manager.metrics + "/metrics"
	eventually(t, "an authorized user reads metrics", func() error {
		return get(t, url, reader, http.StatusOK,
			`webapp_reconcile_total{namespace="`+namespace+`",result="success"}`,
			`webapp_reconcile_duration_seconds_bucket{namespace="`+namespace+`",le="0.1"}`,
			`fettle_resource_ready{kind="WebApp",name="web",namespace="`+namespace+`"} 0`,
			"controller_runtime_reconcile_total")
	})
	if err := get(t, url, "", http.StatusUnauthorized); err != nil {
		t.Error(err)
	}
	if err := get(t, url, other, http.StatusForbidden); err != nil {
		t.Error(err)
	}
	if err := c.Delete(t.Context(), &appsv1.WebApp{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the series are deleted with the WebApp", func() error {
		if get(t, url, reader, http.StatusOK, `namespace="`+namespace+`"`) == nil {
			return errStillThere
		}
		return get(t, url, reader, http.StatusOK)
	})
	manager.stop(t)
}

// token creates a ServiceAccount and returns a token for it.
func token(t *testing.T, c client.Client, namespace, name string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	createAll(t, c, account)
	request := &authenticationv1.TokenRequest{}
	if err := c.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

func TestWatchNamespaces_limitsTheManager(t *testing.T) {
	c, in, out := newAdmin(t), env.Namespace(t), env.Namespace(t)
	manager := startManager(t, "--webhooks=false", "--watch-namespaces="+in)
	manager.waitReady(t)
	outside := create(t, c, out, "outside")
	eventually(t, "the manager reconciles in its namespace", hasDeployment(t, c, create(t, c, in, "inside")))
	if hasDeployment(t, c, outside)() == nil {
		t.Error("the manager reconciled in a namespace that is not in --watch-namespaces")
	}
	if strings.Contains(manager.log.String(), `"level":"error"`) {
		t.Error("the log has errors")
	}
	manager.stop(t)
}

// TestWatchSecrets_false runs the manager in one namespace, so the audit log identifies its requests.
func TestWatchSecrets_false(t *testing.T) {
	for flag, want := range map[string]map[string]bool{
		"--watch-secrets=false": {"get": true, "watch": false},
		"--watch-secrets=true":  {"get": true, "watch": true},
	} {
		t.Run(flag, func(t *testing.T) {
			c, namespace := newAdmin(t), env.Namespace(t)
			secret := emptySecret(namespace, "settings")
			if err := c.Create(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
			recorder, err := audit.New(env.AuditLog, env.Admin)
			if err != nil {
				t.Fatal(err)
			}
			from, err := recorder.Mark(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			manager := startManager(t, "--webhooks=false", flag, "--watch-namespaces="+namespace)
			app := &appsv1.WebApp{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}, Spec: appsv1.WebAppSpec{
				Image: "nginx:1.25", ConfigRefs: []appsv1.ConfigRef{{Kind: "Secret", Name: secret.Name}},
			}}
			if err := c.Create(t.Context(), app); err != nil {
				t.Fatal(err)
			}
			requests := func() error {
				summary, err := recorder.Since(t.Context(), from, audit.Filter{User: testenv.OperatorUser, Namespace: namespace})
				if err != nil {
					return err
				}
				seen := map[string]bool{"get": false, "watch": false}
				for key := range summary.Counts {
					if key.Resource == "secrets" {
						seen[strings.Replace(key.Verb, "list", "watch", 1)] = true
					}
				}
				if diff := cmp.Diff(want, seen); diff != "" {
					return fmt.Errorf("requests for Secrets (-want +got):\n%s\n%s", diff, summary)
				}
				return nil
			}
			eventually(t, "the WebApp with the Secret has a Deployment", hasDeployment(t, c, app))
			eventually(t, "the manager reads the Secret", requests) // after it has created the Deployment
			manager.stop(t)
			if err := requests(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWebhooks_withoutCertificate(t *testing.T) {
	manager := startManager(t, "--webhook-cert-dir="+t.TempDir())
	select {
	case <-manager.ended:
		if manager.err == nil || !strings.Contains(manager.log.String(), "tls.crt") {
			t.Errorf("exited with %v; want an error that names the file", manager.err)
		}
	case <-time.After(waitTimeout):
		t.Fatal("the manager keeps running without the provided certificate")
	}
}
