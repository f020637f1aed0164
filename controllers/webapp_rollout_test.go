package controllers_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/testenv"
)

// byHand keeps the data plane's hands off a Deployment: the spec says what it and its pods report.
var byHand = testenv.Rollout{Delay: time.Hour}

// report writes the status of app's Deployment, and of one pod of its current template where pod isn't nil.
func report(ctx context.Context, app *appsv1.WebApp, change func(*k8sappsv1.DeploymentStatus), pod *corev1.PodStatus) {
	GinkgoHelper()
	d := deploymentOf(app)
	Eventually(func() error { return read(ctx, d) }).Should(Succeed())
	d.Status = k8sappsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 3, UpdatedReplicas: 3, UnavailableReplicas: 3}
	if change != nil {
		change(&d.Status)
	}
	Expect(user.Status().Update(ctx, d)).To(Succeed())
	if pod == nil {
		return
	}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: d.Name + "-1", Labels: d.Spec.Template.Labels, Annotations: d.Spec.Template.Annotations,
		},
		Spec: d.Spec.Template.Spec,
	}
	Expect(client.IgnoreAlreadyExists(user.Create(ctx, p))).To(Succeed())
	Expect(read(ctx, p)).To(Succeed())
	p.Status = *pod
	Expect(user.Status().Update(ctx, p)).To(Succeed())
}

func waiting(reason, text string, restarts int32) *corev1.PodStatus {
	status := corev1.ContainerStatus{
		Name: "app", Image: "nginx:1.25", RestartCount: restarts,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: text}},
	}
	if restarts > 0 {
		status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 3}
	}
	return &corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{status}}
}

var _ = Describe("A WebApp whose pods don't start", func() {
	DescribeTable("says why",
		func(ctx context.Context, reason, text string, status func(*k8sappsv1.DeploymentStatus), pod *corev1.PodStatus) {
			namespace := newNamespace(ctx)
			fakeKubelet.Set(namespace, "web", byHand)
			app := newApp(namespace, "web")
			Expect(user.Create(ctx, app)).To(Succeed())
			report(ctx, app, status, pod)
			Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("False " + reason))
			Expect(message(app, "Ready")).To(ContainSubstring(text))
			Expect(app.Status.Phase).To(Equal(appsv1.PhaseDegraded))
			Eventually(eventReasons).WithContext(ctx).WithArguments(app).Should(ContainElement("Warning " + reason))
			fakeKubelet.Set(namespace, "web", testenv.Rollout{})
			Expect(user.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(namespace), client.GracePeriodSeconds(0))).To(Succeed())
			Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("True Ready"))
		},
		Entry("the image can't be pulled", "ImagePullBackOff", `cannot pull image "nginx:1.25": check its name and tag`, nil,
			waiting("ErrImagePull", "Back-off pulling image, 5th try", 0)),
		Entry("the quota is used up", "QuotaExceeded", "exceeded quota: small", func(s *k8sappsv1.DeploymentStatus) {
			s.Replicas, s.UpdatedReplicas = 0, 0
			s.Conditions = []k8sappsv1.DeploymentCondition{{
				Type: k8sappsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate",
				Message: `pods "web-1" is forbidden: exceeded quota: small, requested: pods=1`,
			}}
		}, nil),
	)

	It("fails when the rollout makes no progress", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		app := newApp(namespace, "web")
		fakeKubelet.Set(namespace, "web", testenv.Rollout{Waiting: "ImagePullBackOff", Message: "no such image", DeadlineExceeded: true})
		Expect(user.Create(ctx, app)).To(Succeed())
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("False ImagePullBackOff"))
		Expect(message(app, "Ready")).To(HavePrefix("no progress for 10m0s (spec.rollout.progressDeadline); "))
		Expect(app.Status.Phase).To(Equal(appsv1.PhaseFailed))
	})

	It("writes no status for what changes with every attempt only", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		fakeKubelet.Set(namespace, "web", byHand)
		app := newApp(namespace, "web")
		Expect(user.Create(ctx, app)).To(Succeed())
		report(ctx, app, nil, waiting("CrashLoopBackOff", "back-off 10s", 2))
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("False CrashLoopBackOff"))
		settle(ctx)
		requests := countRequests(ctx, namespace)
		report(ctx, app, nil, waiting("CrashLoopBackOff", "back-off 20s", 3))
		report(ctx, app, nil, waiting("CrashLoopBackOff", "back-off 40s", 4))
		requests.expectIdle(ctx)
	})
})

var _ = Describe("A WebApp with rollout.autoRollback", func() {
	It("rolls back to the last good template once, and tries the next template", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		app := newApp(namespace, "web", func(s *appsv1.WebAppSpec) { s.Rollout.AutoRollback = true })
		createReady(ctx, app)
		d := deploymentOf(app)
		revisions := func() int {
			list := &k8sappsv1.ControllerRevisionList{}
			Expect(user.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
			return len(list.Items)
		}
		Eventually(revisions).Should(Equal(1))

		By("rolling out what never starts")
		fakeKubelet.Set(namespace, "web", testenv.Rollout{Delay: still, DeadlineExceeded: true, Waiting: "ImagePullBackOff"})
		change(ctx, app, func(s *appsv1.WebAppSpec) { s.Image = "nginx:broken" })
		Eventually(field(d, imageOf)).WithContext(ctx).Should(Equal("nginx:broken"))
		Eventually(field(d, imageOf)).WithContext(ctx).Should(Equal("nginx:1.25"))
		fakeKubelet.Set(namespace, "web", testenv.Rollout{})
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("False RolledBack"))
		Expect(message(app, "Ready")).To(HavePrefix(`image "nginx:broken" did not become ready (`))
		Eventually(condition).WithContext(ctx).WithArguments(app, appsv1.WebAppAvailable).Should(Equal("True Available"))
		Expect(app.Status.Image).To(Equal("nginx:1.25"))
		Expect(app.Status.LastGoodImage).To(Equal("nginx:1.25"))
		Expect(app.Status.FailedRevision).NotTo(BeEmpty())

		By("restarting the operator")
		generation := mustRead(ctx, d).Generation
		requests := countRequests(ctx, namespace)
		runningOperator.restart()
		touch(ctx, app, "1")
		requests.expectIdle(ctx)
		Expect(mustRead(ctx, d).Generation).To(Equal(generation))
		Expect(ready(ctx, app)).To(Equal("False RolledBack"))

		By("trying another image")
		change(ctx, app, func(s *appsv1.WebAppSpec) { s.Image = "nginx:1.26" })
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("True Ready"))
		Expect(app.Status.LastGoodImage).To(Equal("nginx:1.26"))
		Expect(app.Status.FailedRevision).To(BeEmpty())
		Eventually(revisions).Should(Equal(1))
	})
})
