package controllers_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
	"github.com/fettle-dev/fettle/internal/stack"
	"github.com/fettle-dev/fettle/internal/testenv"
)

// newStackNamespace is a namespace for one spec. Its AppStacks are deleted at the end, without their order.
func newStackNamespace(ctx context.Context) string {
	GinkgoHelper()
	name, err := env.NewNamespace(ctx, "stack")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx context.Context) {
		list := &platformv1.AppStackList{}
		Expect(user.List(ctx, list, client.InNamespace(name))).To(Succeed())
		for i := range list.Items {
			Expect(client.IgnoreNotFound(user.Delete(ctx, &list.Items[i]))).To(Succeed())
		}
		Eventually(func(ctx context.Context) (int, error) {
			collectGarbage(ctx, name)
			err := user.List(ctx, list, client.InNamespace(name))
			return len(list.Items), err
		}).WithContext(ctx).Should(BeZero())
		for _, obj := range []client.Object{&appsv1.WebApp{}, &configv1.AppConfig{}, &databasev1alpha1.PostgreSQL{}} {
			Expect(user.DeleteAllOf(ctx, obj, client.InNamespace(name))).To(Succeed())
		}
	})
	return name
}

// collectGarbage does what the garbage collector does for a foreground deletion of the components of AppStacks: they end once nothing that
// they control is left.
func collectGarbage(ctx context.Context, namespace string) {
	GinkgoHelper()
	for _, list := range []client.ObjectList{&appsv1.WebAppList{}, &configv1.AppConfigList{}, &databasev1alpha1.PostgreSQLList{}, &k8sappsv1.StatefulSetList{}} {
		Expect(user.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
		Expect(meta.EachListItem(list, func(o runtime.Object) error {
			obj := o.(client.Object)
			if obj.GetDeletionTimestamp() == nil || !slices.Contains(obj.GetFinalizers(), metav1.FinalizerDeleteDependents) {
				return nil
			}
			deployment := &k8sappsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: obj.GetName()}}
			if err := user.Delete(ctx, deployment); client.IgnoreNotFound(err) != nil {
				return err
			}
			return client.IgnoreNotFound(user.Patch(ctx, obj, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
		})).To(Succeed())
	}
}

func block(format string, args ...any) *runtime.RawExtension {
	return &runtime.RawExtension{Raw: fmt.Appendf(nil, format, args...)}
}

// newStack is an AppStack of a config, an external database, a cache, and two web applications.
func newStack(namespace, name string) *platformv1.AppStack {
	return &platformv1.AppStack{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: platformv1.AppStackSpec{Components: []platformv1.AppStackComponent{
			{Name: "frontend", WebApp: block(`{"image":"frontend:v1"}`)},
			{Name: "backend", WebApp: block(`{"image":"backend:v1","port":8080}`)},
			{Name: "config", Config: block(`{"environment":"dev","config":{"GREETING":"hello"}}`)},
			{Name: "db", External: &platformv1.External{Type: platformv1.ExternalPostgreSQL, SecretRef: fettlev1.SecretKeyReference{Name: "database"}}},
			{Name: "cache", Cache: &platformv1.Cache{}},
		}},
	}
}

func databaseSecret(namespace string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "database"},
		StringData: map[string]string{"uri": "postgresql://shop:canary-external@db.example.com/shop"},
	}
}

// stackReady reads s again and says the status and reason of Ready, "old" while it speaks of an older generation.
func stackReady(ctx context.Context, s *platformv1.AppStack) string {
	if err := read(ctx, s); err != nil {
		return err.Error()
	}
	c := meta.FindStatusCondition(s.Status.Conditions, fettlev1.Ready)
	if s.Status.ObservedGeneration < s.Generation {
		return "old"
	}
	return string(c.Status) + " " + c.Reason
}

func stackMessage(s *platformv1.AppStack) string {
	return meta.FindStatusCondition(s.Status.Conditions, fettlev1.Ready).Message
}

// component says the state of a component: "ready", or its reason.
func component(name string) func(*platformv1.AppStack) string {
	return func(s *platformv1.AppStack) string {
		for _, c := range s.Status.Components {
			if c.Name == name {
				if c.Ready {
					return "ready"
				}
				return c.Reason
			}
		}
		return "none"
	}
}

// runServer makes the only pod of a StatefulSet ready, which nothing else does here.
func runServer(ctx context.Context, namespace, name string) {
	GinkgoHelper()
	set := &k8sappsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	Eventually(read).WithContext(ctx).WithArguments(set).Should(Succeed())
	set.Status = k8sappsv1.StatefulSetStatus{
		ObservedGeneration: set.Generation, Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1, CurrentReplicas: 1, UpdatedReplicas: 1,
		CurrentRevision: "one", UpdateRevision: "one",
	}
	Expect(user.Status().Update(ctx, set)).To(Succeed())
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-0", Labels: maps.Clone(set.Spec.Template.Labels)},
		Spec:       *set.Spec.Template.Spec.DeepCopy(),
	}
	pod.Labels[k8sappsv1.ControllerRevisionHashLabelKey] = set.Status.UpdateRevision
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	pod.Spec.Volumes = slices.CompactFunc(pod.Spec.Volumes, func(a, b corev1.Volume) bool { return a.Name == b.Name })
	Expect(user.Create(ctx, pod)).To(Succeed())
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	Expect(user.Status().Update(ctx, pod)).To(Succeed())
}

// createStackReady creates s, the Secret of its database and the pod of its cache, and waits until it is Ready.
func createStackReady(ctx context.Context, s *platformv1.AppStack) {
	GinkgoHelper()
	Expect(user.Create(ctx, databaseSecret(s.Namespace))).To(Succeed())
	Expect(user.Create(ctx, s)).To(Succeed())
	runServer(ctx, s.Namespace, s.Name+"-cache")
	Eventually(stackReady).WithContext(ctx).WithArguments(s).Should(Equal("True Ready"), func() string { return stackMessage(s) })
}

func changeStack(ctx context.Context, s *platformv1.AppStack, f func(*platformv1.AppStackSpec)) {
	GinkgoHelper()
	Eventually(func(ctx context.Context) error {
		if err := read(ctx, s); err != nil {
			return err
		}
		f(&s.Spec)
		return user.Update(ctx, s)
	}).WithContext(ctx).Should(Succeed())
}

func componentOf(s *platformv1.AppStackSpec, name string) *platformv1.AppStackComponent {
	return &s.Components[slices.IndexFunc(s.Components, func(c platformv1.AppStackComponent) bool { return c.Name == name })]
}

// webAppIn is the child object of a component.
func webAppIn(s *platformv1.AppStack, name string) *appsv1.WebApp {
	return &appsv1.WebApp{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name + "-" + name}}
}

func exists(ctx context.Context, obj client.Object) bool {
	GinkgoHelper()
	err := read(ctx, obj)
	Expect(client.IgnoreNotFound(err)).To(Succeed())
	return err == nil
}

var _ = Describe("An AppStack", func() {
	var namespace string
	BeforeEach(func(ctx context.Context) { namespace = newStackNamespace(ctx) })

	It("creates its components in the order of their dependencies, with one write for each object", func(ctx context.Context) {
		requests := countRequests(ctx, namespace)
		s := newStack(namespace, "shop")
		Expect(user.Create(ctx, s)).To(Succeed())
		By("waiting for the external database, whose Secret does not exist")
		Eventually(field(s, component("db"))).WithContext(ctx).Should(Equal("Missing"))
		Eventually(field(s, component("backend"))).WithContext(ctx).Should(Equal("Waiting"))
		Expect(stackReady(ctx, s)).To(Equal("False ComponentNotReady"))
		Expect(stackMessage(s)).To(ContainSubstring(`Secret "database" does not exist`))
		Expect(exists(ctx, webAppIn(s, "backend"))).To(BeFalse())
		Expect(user.Create(ctx, databaseSecret(namespace))).To(Succeed())
		By("waiting for the cache")
		Eventually(field(s, component("db"))).WithContext(ctx).Should(Equal("ready"))
		Consistently(func(ctx context.Context) bool { return exists(ctx, webAppIn(s, "backend")) }).WithContext(ctx).Should(BeFalse())
		By("starting the rest when the cache is ready")
		fakeKubelet.Set(namespace, "shop-backend", testenv.Rollout{Delay: 2 * time.Second})
		runServer(ctx, namespace, "shop-cache")
		backend, frontend := webAppIn(s, "backend"), webAppIn(s, "frontend")
		Eventually(func(ctx context.Context) bool { return exists(ctx, backend) }).WithContext(ctx).Should(BeTrue())
		Expect(exists(ctx, frontend)).To(BeFalse(), "the backend is not ready yet")
		Eventually(stackReady).WithContext(ctx).WithArguments(s).Should(Equal("True Ready"))
		Expect(read(ctx, frontend)).To(Succeed())
		Expect(s.Status.ReadyComponents).To(Equal("5/5"))
		Expect(s.Status.Phase).To(Equal(platformv1.PhaseRunning))
		Expect(s.Status.Endpoints).To(ConsistOf(
			platformv1.Endpoint{Name: "backend", URL: "http://shop-backend." + namespace + ".svc:8080", Scope: platformv1.ScopeInternal},
			platformv1.Endpoint{Name: "frontend", URL: "http://shop-frontend." + namespace + ".svc", Scope: platformv1.ScopeInternal}))
		expectConnected(ctx, s, backend)
		settle(ctx)
		expectStackWrites(ctx, requests)
	})

	It("names a component that fails within 10 seconds, and leaves the others running", func(ctx context.Context) {
		s := newStack(namespace, "shop")
		createStackReady(ctx, s)
		frontend := mustRead(ctx, webAppIn(s, "frontend"))
		By("failing the next version of the backend")
		fakeKubelet.Set(namespace, "shop-backend", testenv.Rollout{Image: "backend:v2", Waiting: "ImagePullBackOff", Message: "no such image"})
		changeStack(ctx, s, func(spec *platformv1.AppStackSpec) {
			componentOf(spec, "backend").WebApp = block(`{"image":"backend:v2","port":8080}`)
		})
		backend := webAppIn(s, "backend")
		Eventually(func(ctx context.Context) string { return condition(ctx, backend, "Ready") }).WithContext(ctx).Should(Equal("False ImagePullBackOff"))
		since := time.Now()
		Eventually(stackReady).WithContext(ctx).WithArguments(s).Should(Equal("False ComponentNotReady"))
		Expect(time.Since(since)).To(BeNumerically("<", 10*time.Second))
		Expect(stackMessage(s)).To(And(ContainSubstring("component backend (WebApp shop-backend) is not ready: ImagePullBackOff"), ContainSubstring("backend:v2")))
		By("repairing what others change meanwhile")
		patch(ctx, frontend, `{"spec":{"replicas":7}}`) // not set by the AppStack: it stays
		patch(ctx, frontend, `{"spec":{"image":"foreign:v9"}}`)
		image := func(app *appsv1.WebApp) string { return app.Spec.Image }
		Eventually(field(frontend, image)).WithContext(ctx).Should(Equal("frontend:v1"))
		Expect(*frontend.Spec.Replicas).To(Equal(int32(7)))
		Eventually(ready).WithContext(ctx).WithArguments(frontend).Should(Equal("True Ready"))
		By("holding the next version of the frontend, which runs on")
		changeStack(ctx, s, func(spec *platformv1.AppStackSpec) {
			componentOf(spec, "frontend").WebApp = block(`{"image":"frontend:v2"}`)
		})
		Eventually(field(s, component("frontend"))).WithContext(ctx).Should(Equal("Waiting"))
		Consistently(field(frontend, image)).WithContext(ctx).Should(Equal("frontend:v1"))
		Expect(ready(ctx, frontend)).To(Equal("True Ready"))
		By("succeeding")
		fakeKubelet.Set(namespace, "shop-backend", testenv.Rollout{})
		Eventually(stackReady).WithContext(ctx).WithArguments(s).Should(Equal("True Ready"))
		Expect(mustRead(ctx, frontend).Spec.Image).To(Equal("frontend:v2"))
	})

	It("creates a deleted component again, and corrects a changed one", func(ctx context.Context) {
		s := newStack(namespace, "shop")
		createStackReady(ctx, s)
		backend := mustRead(ctx, webAppIn(s, "backend"))
		Expect(user.Delete(ctx, backend)).To(Succeed())
		Expect(client.IgnoreNotFound(user.Delete(ctx, deploymentOf(backend)))).To(Succeed())
		Eventually(func(ctx context.Context) (bool, error) {
			again := webAppIn(s, "backend")
			err := read(ctx, again)
			return err == nil && again.UID != backend.UID, client.IgnoreNotFound(err)
		}).WithContext(ctx).Should(BeTrue())
		policy := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop-cache"}}
		Expect(user.Delete(ctx, policy)).To(Succeed())
		Eventually(read).WithContext(ctx).WithArguments(policy).Should(Succeed())
		Eventually(stackReady).WithContext(ctx).WithArguments(s).Should(Equal("True Ready"))
	})

	It("reports a foreign object with the name of a child, does not take it, and goes on with the others", func(ctx context.Context) {
		foreign := newApp(namespace, "shop-side")
		createReady(ctx, foreign)
		first := newStack(namespace, "shop")
		first.Spec.Components = append(first.Spec.Components, platformv1.AppStackComponent{Name: "side", WebApp: block(`{"image":"side:v1"}`)})
		Expect(user.Create(ctx, databaseSecret(namespace))).To(Succeed())
		Expect(user.Create(ctx, first)).To(Succeed())
		runServer(ctx, namespace, "shop-cache")
		Eventually(field(first, component("side"))).WithContext(ctx).Should(Equal("NameConflict"))
		Eventually(field(first, component("frontend"))).WithContext(ctx).Should(Equal("ready"))
		Expect(stackReady(ctx, first)).To(Equal("False ComponentNotReady"))
		Expect(stackMessage(first)).To(ContainSubstring(`WebApp "shop-side" exists and is not controlled by this AppStack`))
		Expect(mustRead(ctx, foreign).Spec.Image).To(Equal("nginx:1.25"))
		By("another AppStack with a child of the same name")
		second := &platformv1.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop-back"}}
		second.Spec.Components = []platformv1.AppStackComponent{{Name: "end", WebApp: block(`{"image":"end:v1"}`)}}
		third := &platformv1.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop-a"}}
		third.Spec.Components = []platformv1.AppStackComponent{{Name: "b-c", WebApp: block(`{"image":"end:v1"}`)}}
		fourth := &platformv1.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop-a-b"}}
		fourth.Spec.Components = []platformv1.AppStackComponent{{Name: "c", WebApp: block(`{"image":"other:v1"}`)}}
		Expect(user.Create(ctx, third)).To(Succeed())
		Eventually(stackReady).WithContext(ctx).WithArguments(third).Should(Equal("True Ready"))
		Expect(user.Create(ctx, fourth)).To(Succeed())
		Eventually(field(fourth, component("c"))).WithContext(ctx).Should(Equal("NameConflict"))
		Expect(stackMessage(fourth)).To(ContainSubstring("controlled by AppStack shop-a"))
		Expect(mustRead(ctx, webAppIn(third, "b-c")).Spec.Image).To(Equal("end:v1"))
	})

	It("deletes a removed component after those that depend on it, and keeps a suspended one", func(ctx context.Context) {
		s := newStack(namespace, "shop")
		s.Spec.Components = append(s.Spec.Components,
			platformv1.AppStackComponent{Name: "api", WebApp: block(`{"image":"api:v1"}`)},
			platformv1.AppStackComponent{Name: "client", WebApp: block(`{"image":"client:v1"}`), DependsOn: []string{"api"}})
		createStackReady(ctx, s)
		api, dependant := webAppIn(s, "api"), webAppIn(s, "client")
		changeStack(ctx, s, func(spec *platformv1.AppStackSpec) { spec.Components = spec.Components[:5] })
		Eventually(field(dependant, func(app *appsv1.WebApp) bool { return app.DeletionTimestamp != nil })).WithContext(ctx).Should(BeTrue())
		Eventually(field(s, component("api"))).WithContext(ctx).Should(Equal("Removed"))
		Expect(mustRead(ctx, api).DeletionTimestamp).To(BeNil(), "the one that depends on it still exists")
		collectGarbage(ctx, namespace)
		Eventually(field(api, func(app *appsv1.WebApp) bool { return app.DeletionTimestamp != nil })).WithContext(ctx).Should(BeTrue())
		collectGarbage(ctx, namespace)
		Eventually(stackReady).WithContext(ctx).WithArguments(s).Should(Equal("True Ready"))
		Expect(component("api")(s)).To(Equal("none"))

		By("suspending the backend")
		changeStack(ctx, s, func(spec *platformv1.AppStackSpec) {
			b := componentOf(spec, "backend")
			b.Suspended, b.WebApp = true, block(`{"image":"backend:v3"}`)
		})
		Eventually(stackReady).WithContext(ctx).WithArguments(s).Should(Equal("True Ready"))
		Expect(mustRead(ctx, webAppIn(s, "backend")).Spec.Image).To(Equal("backend:v1"))

		By("giving a component another kind under its name")
		changeStack(ctx, s, func(spec *platformv1.AppStackSpec) {
			c := componentOf(spec, "config")
			c.Config, c.WebApp = nil, block(`{"image":"config:v1"}`)
			componentOf(spec, "backend").Suspended = false
		})
		Eventually(field(s, component("config"))).WithContext(ctx).Should(Equal("Waiting"))
		Eventually(func(ctx context.Context) string {
			collectGarbage(ctx, namespace)
			return stackReady(ctx, s)
		}).WithContext(ctx).Should(Equal("True Ready"))
		Expect(exists(ctx, webAppIn(s, "config"))).To(BeTrue())
		Expect(exists(ctx, &configv1.AppConfig{ObjectMeta: webAppIn(s, "config").ObjectMeta})).To(BeFalse())
	})

	It("is deleted in order, dependants first, and keeps what its policies keep", func(ctx context.Context) {
		s := newStack(namespace, "shop")
		s.Spec.Components = append(s.Spec.Components,
			platformv1.AppStackComponent{Name: "kept", MySQL: &platformv1.MySQL{Storage: new(resource.MustParse("1Gi"))}},
			platformv1.AppStackComponent{Name: "lost", MySQL: &platformv1.MySQL{DeletionPolicy: platformv1.Delete}})
		Expect(user.Create(ctx, databaseSecret(namespace))).To(Succeed())
		Expect(user.Create(ctx, s)).To(Succeed())
		for _, name := range []string{"cache", "kept", "lost"} {
			runServer(ctx, namespace, "shop-"+name)
		}
		Eventually(stackReady).WithContext(ctx).WithArguments(s).Should(Equal("True Ready"))
		Expect(user.Delete(ctx, s)).To(Succeed())
		frontend, backend := webAppIn(s, "frontend"), webAppIn(s, "backend")
		cache := &k8sappsv1.StatefulSet{ObjectMeta: webAppIn(s, "cache").ObjectMeta}
		deleting := func(obj client.Object) func(context.Context) bool {
			return func(ctx context.Context) bool { return !exists(ctx, obj) || obj.GetDeletionTimestamp() != nil }
		}
		Eventually(deleting(frontend)).WithContext(ctx).Should(BeTrue())
		Expect(stackReady(ctx, s)).To(Or(Equal("False Terminating"), Equal("old")))
		Consistently(deleting(backend)).WithContext(ctx).Should(BeFalse())
		collectGarbage(ctx, namespace)
		Eventually(deleting(backend)).WithContext(ctx).Should(BeTrue())
		Consistently(deleting(cache)).WithContext(ctx).Should(BeFalse())
		collectGarbage(ctx, namespace)
		Eventually(deleting(cache)).WithContext(ctx).Should(BeTrue())
		Expect(exists(ctx, s)).To(BeTrue())
		Eventually(func(ctx context.Context) bool {
			collectGarbage(ctx, namespace)
			return exists(ctx, s)
		}).WithContext(ctx).Should(BeFalse())
		secretNamed := func(name string) *corev1.Secret {
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		}
		Expect(exists(ctx, secretNamed("shop-kept-credentials"))).To(BeTrue())
		Expect(exists(ctx, secretNamed("shop-lost-credentials"))).To(BeFalse())
		Expect(exists(ctx, secretNamed("shop-cache-credentials"))).To(BeFalse())
		Expect(exists(ctx, secretNamed("database"))).To(BeTrue(), "it is the user's")
	})

	It("holds up no deletion of its namespace", func(ctx context.Context) {
		s := newStack(namespace, "shop")
		createStackReady(ctx, s)
		Expect(user.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
		Expect(user.Delete(ctx, s)).To(Succeed()) // what the namespace controller does
		Eventually(func(ctx context.Context) bool { return exists(ctx, s) }).WithContext(ctx).Should(BeFalse())
	})

	It("leaves its components when they are to be orphaned", func(ctx context.Context) {
		s := newStack(namespace, "shop")
		createStackReady(ctx, s)
		Expect(user.Delete(ctx, s, client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
		Eventually(field(s, func(s *platformv1.AppStack) []string { return s.Finalizers })).WithContext(ctx).Should(Equal([]string{metav1.FinalizerOrphanDependents}))
		Expect(mustRead(ctx, webAppIn(s, "frontend")).DeletionTimestamp).To(BeNil())
		patch(ctx, s, `{"metadata":{"finalizers":null}}`) // what the garbage collector does, after it removed the owner references
	})

	It("ends a deletion that a finalizer of a component holds up", func(ctx context.Context) {
		s := &platformv1.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "stuck"}}
		s.Spec.Components = []platformv1.AppStackComponent{{Name: "web", WebApp: block(`{"image":"web:v1"}`)}}
		Expect(user.Create(ctx, s)).To(Succeed())
		Eventually(stackReady).WithContext(ctx).WithArguments(s).Should(Equal("True Ready"))
		web := mustRead(ctx, webAppIn(s, "web"))
		patch(ctx, web, `{"metadata":{"finalizers":["example.com/held"]}}`)
		Expect(user.Delete(ctx, s)).To(Succeed())
		Eventually(func(ctx context.Context) bool { return exists(ctx, s) }).WithContext(ctx).WithTimeout(stack.DeletionTimeout + soon).Should(BeFalse())
		patch(ctx, web, `{"metadata":{"finalizers":null}}`)
	})

	It("reports a component that takes longer than the time limit, and goes on", func(ctx context.Context) {
		s := newStack(namespace, "shop")
		s.Spec.ComponentTimeout = metav1.Duration{Duration: 10 * time.Second}
		Expect(user.Create(ctx, s)).To(Succeed())
		Eventually(stackReady).WithContext(ctx).WithArguments(s).Should(Equal("False DependencyTimeout"))
		Expect(stackMessage(s)).To(HavePrefix("component backend waits for "))
		Expect(user.Create(ctx, databaseSecret(namespace))).To(Succeed())
		runServer(ctx, namespace, "shop-cache")
		Eventually(stackReady).WithContext(ctx).WithArguments(s).Should(Equal("True Ready"))
	})

	It("reports a spec that cannot be carried out, and changes nothing that runs", func(ctx context.Context) {
		s := newStack(namespace, "shop")
		createStackReady(ctx, s)
		changeStack(ctx, s, func(spec *platformv1.AppStackSpec) {
			componentOf(spec, "backend").DependsOn = []string{"frontend"}
			componentOf(spec, "frontend").WebApp = block(`{"image":"frontend:v2","replcas":2}`)
		})
		Eventually(stackReady).WithContext(ctx).WithArguments(s).Should(Equal("False InvalidSpec"))
		Expect(stackMessage(s)).To(ContainSubstring("components depend on each other in a circle"))
		Expect(mustRead(ctx, webAppIn(s, "frontend")).Spec.Image).To(Equal("frontend:v1"))
		changeStack(ctx, s, func(spec *platformv1.AppStackSpec) { componentOf(spec, "backend").DependsOn = nil })
		Eventually(func(ctx context.Context) string { return stackReady(ctx, s) + stackMessage(s) }).WithContext(ctx).
			Should(ContainSubstring("spec.components[frontend].webApp.replcas: Forbidden: unknown field"))
		By("a block that its kind rejects")
		changeStack(ctx, s, func(spec *platformv1.AppStackSpec) {
			componentOf(spec, "frontend").WebApp = block(`{"image":"not an image"}`)
		})
		Eventually(field(s, component("frontend"))).WithContext(ctx).Should(Equal("Invalid"))
		Expect(stackMessage(s)).To(ContainSubstring("must be an image reference"))
		By("production without a destination for backups")
		production := &platformv1.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "production"}}
		production.Spec.Environment = platformv1.Production
		production.Spec.Components = []platformv1.AppStackComponent{{Name: "db", PostgreSQL: block(`{"version":"17"}`)}}
		Expect(user.Create(ctx, production)).To(Succeed())
		Eventually(stackReady).WithContext(ctx).WithArguments(production).Should(Equal("False BackupDestinationMissing"))
	})

	It("follows its environment, and runs databases of all kinds", func(ctx context.Context) {
		s := newStack(namespace, "store")
		s.Spec.Environment = platformv1.Production
		destination := `"destination":{"uri":"s3://backups"}`
		s.Spec.Components = []platformv1.AppStackComponent{
			{Name: "db", PostgreSQL: block(`{"version":"17","storage":"1Gi","backup":{%s}}`, destination)},
			{Name: "files", MySQL: &platformv1.MySQL{
				Type: platformv1.TypeMariaDB, Storage: new(resource.MustParse("1Gi")),
				Backup: &platformv1.MySQLBackup{Destination: &backupv1alpha1.Destination{URI: "s3://backups"}},
			}},
			{Name: "cache", Cache: &platformv1.Cache{Type: platformv1.Redis}},
			{Name: "web", WebApp: block(`{"image":"web:v1"}`), DependsOn: []string{"db", "files", "cache"}},
		}
		Expect(user.Create(ctx, s)).To(Succeed())
		pg := &databasev1alpha1.PostgreSQL{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "store-db"}}
		Eventually(read).WithContext(ctx).WithArguments(pg).Should(Succeed())
		Expect(*pg.Spec.Replicas).To(Equal(int32(3)))
		Expect(pg.Spec.Synchronous.Number).To(Equal(int32(1)))
		Expect(pg.Spec.Backup.Enabled).To(BeTrue())
		Expect(pg.Spec.InheritedMetadata.Labels).To(HaveKeyWithValue("app.kubernetes.io/part-of", "store"))
		policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "store-cache"}}
		Eventually(read).WithContext(ctx).WithArguments(policy).Should(Succeed())
		backup := &backupv1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "store-files"}}
		Eventually(read).WithContext(ctx).WithArguments(backup).Should(Succeed())
		Eventually(field(s, component("db"))).WithContext(ctx).Should(Equal("Creating"))
		By("growing the volume of the MySQL")
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data-store-files-0", Labels: map[string]string{"fettle.dev/owner-kind": "AppStack", "fettle.dev/owner-name": "store", "app.kubernetes.io/managed-by": "fettle"}},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Provisioner: "example.com/fake", AllowVolumeExpansion: new(true)}
		Expect(user.Create(ctx, class)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(user.Delete(ctx, class)).To(Succeed()) })
		claim.Spec.StorageClassName = &class.Name
		Expect(user.Create(ctx, claim)).To(Succeed())
		claim.Status.Phase = corev1.ClaimBound // only bound ones may grow
		Expect(user.Status().Update(ctx, claim)).To(Succeed())
		changeStack(ctx, s, func(spec *platformv1.AppStackSpec) {
			componentOf(spec, "files").MySQL.Storage = new(resource.MustParse("2Gi"))
		})
		Eventually(field(claim, func(c *corev1.PersistentVolumeClaim) string { return c.Spec.Resources.Requests.Storage().String() })).WithContext(ctx).Should(Equal("2Gi"))
		By("going back to development")
		changeStack(ctx, s, func(spec *platformv1.AppStackSpec) {
			spec.Environment = platformv1.Development
			componentOf(spec, "files").MySQL.Backup = nil
		})
		Eventually(field(pg, func(pg *databasev1alpha1.PostgreSQL) int32 { return *pg.Spec.Replicas })).WithContext(ctx).Should(Equal(int32(1)))
		Eventually(func(ctx context.Context) bool { return exists(ctx, policy) || exists(ctx, backup) }).WithContext(ctx).Should(BeFalse())
	})

	It("starts no MySQL on a volume whose passwords are lost", func(ctx context.Context) {
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data-shop-db-0", Labels: map[string]string{"fettle.dev/owner-kind": "AppStack", "fettle.dev/owner-name": "shop", "app.kubernetes.io/managed-by": "fettle"}},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}
		Expect(user.Create(ctx, claim)).To(Succeed())
		s := &platformv1.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop"}}
		s.Spec.Components = []platformv1.AppStackComponent{{Name: "db", MySQL: &platformv1.MySQL{}}}
		Expect(user.Create(ctx, s)).To(Succeed())
		Eventually(field(s, component("db"))).WithContext(ctx).Should(Equal("CredentialsMissing"))
		Expect(stackMessage(s)).To(ContainSubstring("restore the Secret"))
		Expect(exists(ctx, &k8sappsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop-db"}})).To(BeFalse())
		patch(ctx, claim, `{"metadata":{"finalizers":null}}`)
		Expect(user.Delete(ctx, claim)).To(Succeed())
		runServer(ctx, namespace, "shop-db")
		Eventually(stackReady).WithContext(ctx).WithArguments(s).Should(Equal("True Ready"))
	})

	It("does not pass on the flapping of a dependency", func(ctx context.Context) {
		s := newStack(namespace, "shop")
		createStackReady(ctx, s)
		generations := func(ctx context.Context) []int64 {
			GinkgoHelper()
			return []int64{
				mustRead(ctx, webAppIn(s, "backend")).Generation, mustRead(ctx, webAppIn(s, "frontend")).Generation,
				mustRead(ctx, deploymentOf(webAppIn(s, "backend"))).Generation, mustRead(ctx, deploymentOf(webAppIn(s, "frontend"))).Generation,
			}
		}
		before, requests := generations(ctx), countRequests(ctx, namespace)
		const flaps = 4
		for range flaps {
			Expect(user.Delete(ctx, databaseSecret(namespace))).To(Succeed())
			Eventually(stackReady).WithContext(ctx).WithArguments(s).Should(Equal("False ComponentNotReady"))
			Expect(user.Create(ctx, databaseSecret(namespace))).To(Succeed())
			Eventually(stackReady).WithContext(ctx).WithArguments(s).Should(Equal("True Ready"))
		}
		settle(ctx)
		Expect(generations(ctx)).To(Equal(before))
		summary := requests.summary(ctx)
		Expect(to(summary, "appstacks.platform.fettle.dev", "status").Writes()).To(BeNumerically("<=", 3*flaps), summary.String())
	})

	It("reports a quota that is in the way of a component, and continues when it is gone", func(ctx context.Context) {
		quota := &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "none"},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/appconfigs.config.fettle.dev": resource.MustParse("0")}},
		}
		Expect(user.Create(ctx, quota)).To(Succeed())
		quota.Status.Hard, quota.Status.Used = quota.Spec.Hard, quota.Spec.Hard // what the quota controller does
		Expect(user.Status().Update(ctx, quota)).To(Succeed())
		s := newStack(namespace, "shop")
		Expect(user.Create(ctx, databaseSecret(namespace))).To(Succeed())
		Expect(user.Create(ctx, s)).To(Succeed())
		runServer(ctx, namespace, "shop-cache")
		Eventually(field(s, component("config"))).WithContext(ctx).Should(Equal("Forbidden"))
		Expect(component("backend")(s)).To(Equal("Waiting"))
		Expect(stackMessage(s)).To(ContainSubstring("exceeded quota"))
		Expect(user.Delete(ctx, quota)).To(Succeed())
		Eventually(stackReady).WithContext(ctx).WithArguments(s).Should(Equal("True Ready"))
	})

	It("changes nothing while it is paused", func(ctx context.Context) {
		s := newStack(namespace, "shop")
		createStackReady(ctx, s)
		changeStack(ctx, s, func(spec *platformv1.AppStackSpec) {
			spec.Paused = true
			componentOf(spec, "frontend").WebApp = block(`{"image":"frontend:v2"}`)
		})
		Eventually(stackReady).WithContext(ctx).WithArguments(s).Should(Equal("True Paused"))
		Expect(mustRead(ctx, webAppIn(s, "frontend")).Spec.Image).To(Equal("frontend:v1"))
	})
})
