package webapp

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/optionalapi"
	"github.com/fettle-dev/fettle/test/gitops"
)

// fixture is a WebApp and what was observed of it.
type fixture struct {
	app  *appsv1.WebApp
	in   inputs
	seen observed
}

// newFixture is a WebApp of three pods, all of which serve, as change leaves it.
func newFixture(change func(*fixture)) fixture {
	app := &appsv1.WebApp{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Generation: 2},
		Spec: appsv1.WebAppSpec{
			Image: "nginx:1.25", Replicas: new(int32(3)), Port: 80,
			Rollout: appsv1.WebAppRollout{ProgressDeadline: metav1.Duration{Duration: 10 * time.Minute}},
		},
	}
	s := fixture{app: app, in: inputs{apis: optionalapi.Served{Missing: map[string]bool{}}}}
	d := &k8sappsv1.Deployment{}
	d.Generation, d.Status.ObservedGeneration = 5, 5
	d.Spec.Replicas = new(int32(3))
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: mainContainer, Image: "nginx:1.25"}}
	d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.ReadyReplicas, d.Status.AvailableReplicas = 3, 3, 3, 3
	s.seen.deployment = d
	s.seen.publication.service = &corev1.Service{}
	if change != nil {
		change(&s)
	}
	if d := s.seen.deployment; d != nil && d.Spec.Template.Annotations == nil {
		d.Spec.Template.Annotations = map[string]string{annotationRevision: desired(app, s.in).running.hash}
	}
	return s
}

func (s fixture) status() appsv1.WebAppStatus {
	setStatus(s.app, s.in, desired(s.app, s.in), s.seen)
	return s.app.Status
}

func down(d *k8sappsv1.Deployment) { d.Status.ReadyReplicas, d.Status.AvailableReplicas = 0, 0 }

func exceeded(d *k8sappsv1.Deployment) {
	down(d)
	d.Status.Conditions = []k8sappsv1.DeploymentCondition{{
		Type: k8sappsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded",
	}}
}

var services = schema.GroupResource{Resource: "services"}

// scenes are the states that a WebApp can be in, and what its status must say.
var scenes = []struct {
	name   string
	change func(*fixture)
	// ready is the status and reason of Ready.
	ready string
	phase appsv1.WebAppPhase
	text  string
}{
	{"all well", nil, "True Ready", appsv1.PhaseRunning, ""},
	{"no Deployment yet", func(s *fixture) { s.seen.deployment = nil }, "False RollingOut", appsv1.PhaseDeploying, "are starting"},
	{"own write not seen yet", func(s *fixture) { s.seen.stale = true }, "False RollingOut", appsv1.PhaseDeploying, ""},
	{"Deployment not observed yet", func(s *fixture) { s.seen.deployment.Generation++ }, "False RollingOut", appsv1.PhaseDeploying, ""},
	{"another template", func(s *fixture) {
		s.seen.deployment.Spec.Template.Annotations = map[string]string{annotationRevision: "old"}
	}, "False RollingOut", appsv1.PhaseDeploying, ""},
	{"an old pod is left", func(s *fixture) { s.seen.deployment.Status.Replicas = 4 }, "False RollingOut", appsv1.PhaseDeploying, ""},
	{"pods went down", func(s *fixture) {
		down(s.seen.deployment)
		s.seen.pods = []corev1.Pod{wasReady("web-1")}
	}, "False Unavailable", appsv1.PhaseDegraded, "no longer are"},
	{"deadline", func(s *fixture) { exceeded(s.seen.deployment) }, "False ProgressDeadlineExceeded", appsv1.PhaseFailed, "no progress for 10m0s"},
	{"deadline of the template before", func(s *fixture) {
		exceeded(s.seen.deployment)
		s.seen.deployment.Generation++
	}, "False RollingOut", appsv1.PhaseDeploying, ""},
	{"quota", func(s *fixture) {
		down(s.seen.deployment)
		s.seen.deployment.Status.Conditions = []k8sappsv1.DeploymentCondition{{
			Type: k8sappsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "exceeded quota: small",
		}}
	}, "False QuotaExceeded", appsv1.PhaseDegraded, "exceeded quota: small"},
	{"pods forbidden", func(s *fixture) {
		down(s.seen.deployment)
		s.seen.deployment.Status.Conditions = []k8sappsv1.DeploymentCondition{{
			Type: k8sappsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "violates PodSecurity",
		}}
	}, "False ReplicaFailure", appsv1.PhaseDegraded, "violates PodSecurity"},
	{"zero, all gone", func(s *fixture) {
		s.app.Spec.Replicas, s.seen.deployment.Spec.Replicas = new(int32), new(int32)
		s.seen.deployment.Status = k8sappsv1.DeploymentStatus{ObservedGeneration: 5}
	}, "True Ready", appsv1.PhaseRunning, ""},
	{"zero, one left", func(s *fixture) {
		s.app.Spec.Replicas, s.seen.deployment.Spec.Replicas = new(int32), new(int32)
		s.seen.deployment.Status = k8sappsv1.DeploymentStatus{ObservedGeneration: 5, Replicas: 1, UpdatedReplicas: 1}
	}, "False RollingOut", appsv1.PhaseDeploying, ""},
	{"autoscaler adds pods", func(s *fixture) {
		s.app.Spec.Autoscaling = &appsv1.WebAppAutoscaling{MinReplicas: 2, MaxReplicas: 9}
		s.seen.deployment.Spec.Replicas = new(int32(7))
		s.seen.deployment.Status.Replicas, s.seen.deployment.Status.UpdatedReplicas = 7, 7
	}, "True Ready", appsv1.PhaseRunning, ""},
	{"autoscaled, too few serve", func(s *fixture) {
		s.app.Spec.Autoscaling = &appsv1.WebAppAutoscaling{MinReplicas: 2, MaxReplicas: 9}
		s.seen.deployment.Status.AvailableReplicas = 1
	}, "False RollingOut", appsv1.PhaseDeploying, ""},
	{"a foreign autoscaler adds pods", func(s *fixture) {
		s.in.foreign = foreignScaler("mine")
		s.seen.deployment.Spec.Replicas = new(int32(7))
		s.seen.deployment.Status.Replicas, s.seen.deployment.Status.UpdatedReplicas = 7, 7
	}, "True Ready", appsv1.PhaseRunning, ""},
	{"a foreign autoscaler beside the own", func(s *fixture) {
		s.app.Spec.Autoscaling, s.in.foreign = &appsv1.WebAppAutoscaling{MinReplicas: 2, MaxReplicas: 9}, foreignScaler("mine")
	}, "False AutoscalerConflict", appsv1.PhaseDegraded, `spec.autoscaling and HorizontalPodAutoscaler "mine" both scale Deployment "web"`},
	{"reference missing", func(s *fixture) {
		s.app.Spec.ConfigRefs = []appsv1.ConfigRef{{Kind: kindSecret, Name: "db"}}
		s.in.config = []refState{{ref: s.app.Spec.ConfigRefs[0]}}
	}, "False ConfigMissing", appsv1.PhasePending, `Secret "db" does not exist in namespace "shop"`},
	{"a change of its configuration fails", func(s *fixture) {
		s.app.Spec.Rollout.AutoRollback = true
		s.in.good = new(desired(s.app, s.in).own)
		exceeded(s.seen.deployment)
		s.seen.deployment.Annotations = map[string]string{"configmap.fettle.dev/settings": `{"hash":"h","at":"2026-11-20T12:00:00Z"}`}
		s.seen.deployment.Spec.Template.Annotations = map[string]string{annotationRevision: s.in.good.hash, "configmap.fettle.dev/settings": "h"}
	}, "False ProgressDeadlineExceeded", appsv1.PhaseFailed, `restarted for a change of ConfigMap "settings": correct it`},
	{"foreign Service", func(s *fixture) {
		s.seen.applyErr = &apply.ConflictError{OwnerKind: "WebApp", GVK: corev1.SchemeGroupVersion.WithKind("Service"), Name: "web"}
	}, "False NameConflict", appsv1.PhaseDegraded, `Service "web" exists`},
	{"rejected", func(s *fixture) { s.seen.applyErr = apierrors.NewBadRequest("spec.x is wrong") }, "False Invalid", appsv1.PhaseDegraded, "spec.x is wrong"},
	{"not allowed", func(s *fixture) { s.seen.applyErr = apierrors.NewForbidden(services, "web", errors.New("policy")) }, "False Forbidden", appsv1.PhaseDegraded, "policy"},
	{"not written", func(s *fixture) { s.seen.applyErr = errors.New("etcd is full") }, "False WriteFailed", appsv1.PhaseDegraded, "etcd is full"},
	{"no Gateway API", func(s *fixture) {
		s.app.Spec.Gateway, s.in.apis.Missing = &appsv1.WebAppGateway{}, map[string]bool{optionalapi.HTTPRoute.Kind: true}
	}, "False APIMissing", appsv1.PhaseDegraded, "install the Gateway API"},
	{"no cert-manager", func(s *fixture) {
		s.app.Spec.Ingress = &appsv1.WebAppIngress{Host: "a", CertIssuer: &appsv1.CertIssuer{Name: "a"}}
		s.in.apis.Missing = map[string]bool{optionalapi.Certificate.Kind: true}
	}, "False APIMissing", appsv1.PhaseDegraded, "install it, or set tlsSecretName"},
	{"no Prometheus Operator", func(s *fixture) {
		s.app.Spec.Monitoring, s.in.apis.Missing = &appsv1.WebAppMonitoring{}, map[string]bool{optionalapi.ServiceMonitor.Kind: true}
	}, "False APIMissing", appsv1.PhaseDegraded, "install the Prometheus Operator"},
}

func TestStatus(t *testing.T) {
	for _, c := range scenes {
		t.Run(c.name, func(t *testing.T) {
			status := newFixture(c.change).status()
			ready := meta.FindStatusCondition(status.Conditions, "Ready")
			if got := string(ready.Status) + " " + ready.Reason; got != c.ready || status.Phase != c.phase || !strings.Contains(ready.Message, c.text) {
				t.Errorf("Ready %s, phase %s, %q; want %s, %s, %q", got, status.Phase, ready.Message, c.ready, c.phase, c.text)
			}
			for _, cond := range status.Conditions {
				if cond.ObservedGeneration != 2 || cond.Reason == "" {
					t.Errorf("condition %+v", cond)
				}
			}
			if status.ObservedGeneration != 2 || status.Selector != "fettle.dev/owner-kind=WebApp,fettle.dev/owner-name=web" {
				t.Errorf("status %+v", status)
			}
		})
	}
}

// TestStatus_independentOfOldStatus holds that a removed status is restored, except for what the record of
// rollbacks and the last success remember.
func TestStatus_independentOfOldStatus(t *testing.T) {
	for _, c := range scenes {
		once := newFixture(c.change)
		want := once.status()
		again := newFixture(c.change)
		again.app.Status = appsv1.WebAppStatus{
			Phase: appsv1.PhaseFailed, Replicas: 9, AvailableReplicas: 9, Image: "x", CurrentRevision: "x", URL: "x", Selector: "x",
			Conditions: []metav1.Condition{
				{Type: appsv1.WebAppPublished, Status: metav1.ConditionTrue}, {Type: appsv1.WebAppMonitored, Status: metav1.ConditionFalse},
				{Type: appsv1.WebAppConfigResolved, Status: metav1.ConditionFalse}, {Type: "Ready", Status: metav1.ConditionFalse},
			},
		}
		got := again.status()
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime"),
			cmpopts.SortSlices(func(a, b metav1.Condition) bool { return a.Type < b.Type })); diff != "" {
			t.Errorf("%s: status depends on the one before (-from nothing +from nonsense):\n%s", c.name, diff)
		}
	}
}

func TestStatus_namesForeignAutoscaler(t *testing.T) {
	status := newFixture(func(s *fixture) { s.in.foreign = foreignScaler("mine") }).status()
	applied := meta.FindStatusCondition(status.Conditions, appsv1.WebAppApplied)
	if applied.Status != metav1.ConditionTrue || applied.Reason != appsv1.ReasonForeignAutoscaler ||
		!strings.Contains(applied.Message, `HorizontalPodAutoscaler "mine"`) || !strings.Contains(applied.Message, "kind WebApp, name web") {
		t.Errorf("Applied is %+v", applied)
	}
}

func TestMissingAppConfig(t *testing.T) {
	app := &appsv1.WebApp{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	v := configResolved(app, inputs{config: []refState{{ref: appsv1.ConfigRef{Kind: kindAppConfig, Name: "shop"}, publisher: "shop"}}})
	if v.Reason != appsv1.ReasonConfigMissing || !strings.Contains(v.Message, `AppConfig "shop" does not exist in namespace "shop", or has published nothing yet`) {
		t.Errorf("%+v", v)
	}
}

func TestGitOps_health(t *testing.T) {
	scene := func(name string) func(*fixture) {
		for _, s := range scenes {
			if s.name == name {
				return s.change
			}
		}
		t.Fatalf("no scene %q", name)
		return nil
	}
	for name, want := range map[string]gitops.Health{
		"no Deployment yet":                   gitops.Creating,
		"another template":                    gitops.Creating,
		"reference missing":                   gitops.Creating,
		"all well":                            gitops.Ready,
		"autoscaler adds pods":                gitops.Ready,
		"pods went down":                      gitops.Degraded,
		"quota":                               gitops.Degraded,
		"not allowed":                         gitops.Degraded,
		"no Gateway API":                      gitops.Degraded,
		"foreign Service":                     gitops.Blocked,
		"rejected":                            gitops.Blocked,
		"deadline":                            gitops.Blocked,
		"a foreign autoscaler beside the own": gitops.Blocked,
	} {
		s := newFixture(scene(name))
		s.status()
		gitops.Check(t, name, s.app, want)
		s.in, s.seen, s.app.Spec = newFixture(nil).in, newFixture(nil).seen, newFixture(nil).app.Spec
		s.status()
		gitops.Check(t, "all well after "+name, s.app, gitops.Ready)
	}
	for name, change := range map[string]func(*appsv1.WebApp){
		"before the first status": func(app *appsv1.WebApp) { app.Status = appsv1.WebAppStatus{} },
		"a spec not observed yet": func(app *appsv1.WebApp) { app.Generation++ },
	} {
		s := newFixture(nil)
		s.status()
		change(s.app)
		if name == "before the first status" { // as the CRD defaults it
			s.app.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionUnknown, Reason: "Reconciling"}}
		}
		gitops.Check(t, name, s.app, gitops.Creating)
	}
}

func TestGitOps_pausedAndDeleted(t *testing.T) {
	for name, tc := range map[string]struct {
		before, paused func(*fixture)
		want           gitops.Health
	}{
		"ready, then paused":           {nil, nil, gitops.Paused},
		"paused, then pods go down":    {nil, func(s *fixture) { down(s.seen.deployment) }, gitops.PausedNotReady},
		"not ready, then paused":       {func(s *fixture) { exceeded(s.seen.deployment) }, func(s *fixture) { exceeded(s.seen.deployment) }, gitops.PausedNotReady},
		"paused, without a Deployment": {nil, func(s *fixture) { s.seen.deployment = nil }, gitops.PausedNotReady},
	} {
		s := newFixture(tc.before)
		s.status()
		s.app.Generation++
		s.app.Spec.Paused = true
		setPaused(s.app, newFixture(tc.paused).seen)
		gitops.Check(t, name, s.app, tc.want)
		if s.app.Status.Phase != appsv1.PhasePaused {
			t.Errorf("%s: phase %s", name, s.app.Status.Phase)
		}
		s.app.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		conditions.SetTerminating(s.app)
		gitops.Check(t, "deleted", s.app, gitops.Deleting)
	}
	created := newFixture(nil)
	setPaused(created.app, observed{})
	gitops.Check(t, "created while paused", created.app, gitops.PausedNotReady)
}

func TestReadyRevision(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*k8sappsv1.Deployment)
		want   bool
	}{
		"complete":       {func(*k8sappsv1.Deployment) {}, true},
		"behind":         {func(d *k8sappsv1.Deployment) { d.Generation++ }, false},
		"old pods":       {func(d *k8sappsv1.Deployment) { d.Status.Replicas++ }, false},
		"not updated":    {func(d *k8sappsv1.Deployment) { d.Status.UpdatedReplicas-- }, false},
		"not available":  {func(d *k8sappsv1.Deployment) { d.Status.AvailableReplicas-- }, false},
		"none is wanted": {func(d *k8sappsv1.Deployment) { d.Spec.Replicas, d.Status.Replicas = new(int32), 0 }, false},
	} {
		d := newFixture(nil).seen.deployment
		c.change(d)
		if got := readyRevision(d); (got != "") != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := current([]corev1.Pod{{}}, newFixture(nil).seen.deployment); len(got) != 0 {
		t.Errorf("pods of another template count: %v", got)
	}
}

// TestReady_revisionIsRecorded: a template that became ready after the children were decided on is not called ready before
// it can be rolled back to.
func TestReady_revisionIsRecorded(t *testing.T) {
	s := newFixture(func(s *fixture) { s.app.Spec.Rollout.AutoRollback = true })
	p := desired(s.app, s.in)
	if v, _ := available(s.app, s.in, p, s.seen); v.Reason != appsv1.ReasonRollingOut {
		t.Errorf("%+v before the record, want %s", v, appsv1.ReasonRollingOut)
	}
	s.in.ready = p.running.hash
	if v, _ := available(s.app, s.in, p, s.seen); v.Reason != appsv1.ReasonAvailable {
		t.Errorf("%+v with the record, want %s", v, appsv1.ReasonAvailable)
	}
}

// TestInProgress_noEvent holds that progress causes neither an event nor an immediate status write.
func TestInProgress_noEvent(t *testing.T) {
	before := newFixture(nil).app
	for reason, change := range map[string]func(*fixture){
		appsv1.ReasonRoutePending:       withRoute(t, ""),
		appsv1.ReasonCertificatePending: withIngress(appsv1.WebAppIngress{CertIssuer: &appsv1.CertIssuer{Name: "ca"}}, ""),
	} {
		s := newFixture(change)
		s.status()
		if !onlyProgress(s.app, before) {
			t.Errorf("%s is more than progress", reason)
		}
	}
	if s := newFixture(withRoute(t, parent(public, rejected))); s.status().Conditions == nil || onlyProgress(s.app, before) {
		t.Error("a rejected route is progress")
	}
}

func podWith(name string, change func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1000, 0))}}
	change(&p)
	return p
}

// wasReady is a pod that is not ready any more.
func wasReady(name string) corev1.Pod {
	return podWith(name, func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(time.Unix(2000, 0)),
		}}
	})
}

func waitsFor(name, reason string) corev1.Pod {
	return podWith(name, func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
	})
}

// Kubernetes keeps pods that were evicted or ended with their node. The ReplicaSet has replaced them.
func TestCurrent_ignoresReplacedPods(t *testing.T) {
	pod := func(name, revision string, created int64, phase corev1.PodPhase) corev1.Pod {
		return podWith(name, func(p *corev1.Pod) {
			p.Annotations = map[string]string{annotationRevision: revision}
			p.CreationTimestamp = metav1.NewTime(time.Unix(created, 0))
			p.Status = corev1.PodStatus{Phase: phase, Reason: map[bool]string{true: "Evicted"}[phase == corev1.PodFailed]}
		})
	}
	d := newFixture(nil).seen.deployment
	d.Spec.Template.Annotations = map[string]string{annotationRevision: "now"}
	evicted := pod("evicted", "now", 1000, corev1.PodFailed)
	for name, tc := range map[string]struct {
		pods []corev1.Pod
		want string
	}{
		"replaced":                 {[]corev1.Pod{evicted, pod("new", "now", 1001, corev1.PodRunning)}, ""},
		"not yet":                  {[]corev1.Pod{pod("old", "now", 999, corev1.PodRunning), evicted}, "Evicted"},
		"by one of another":        {[]corev1.Pod{evicted, pod("other", "before", 1001, corev1.PodRunning)}, "Evicted"},
		"the replacement too":      {[]corev1.Pod{evicted, pod("new", "now", 1001, corev1.PodFailed)}, "Evicted"},
		"of the template before":   {[]corev1.Pod{pod("old", "before", 1001, corev1.PodFailed)}, ""},
		"alone, as nothing can be": {[]corev1.Pod{evicted}, "Evicted"},
	} {
		got := ""
		if bad := podProblem(current(tc.pods, d)); bad != nil {
			got = bad.Reason
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// The order of the pods does not change the message.
func TestPodProblem_stable(t *testing.T) {
	a, b := waitsFor("web-1", "ImagePullBackOff"), waitsFor("web-2", "CreateContainerError")
	one, other := podProblem([]corev1.Pod{a, b}), podProblem([]corev1.Pod{b, a})
	if one.Reason != "ImagePullBackOff" || *one != *other {
		t.Errorf("%+v and %+v", one, other)
	}
}

func TestStarting(t *testing.T) {
	if starting([]corev1.Pod{wasReady("web-1")}) {
		t.Error("a pod that was ready counts as starting")
	}
	if !starting([]corev1.Pod{podWith("web-1", func(*corev1.Pod) {})}) || !starting(nil) {
		t.Error("new pods, or none, don't count as starting")
	}
}
