package controllers_test

import (
	"context"
	"encoding/json"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/testenv"
)

// newPlatformNamespace is a namespace for one spec. Its EcommercePlatforms and AppStacks are deleted at the end.
func newPlatformNamespace(ctx context.Context) string {
	GinkgoHelper()
	name, err := env.NewNamespace(ctx, "ecommerceplatform")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx context.Context) {
		Expect(user.DeleteAllOf(ctx, &platformv1.EcommercePlatform{}, client.InNamespace(name))).To(Succeed())
		Expect(user.DeleteAllOf(ctx, &platformv1.AppStack{}, client.InNamespace(name))).To(Succeed())
	})
	return name
}

// newPlatform uses an external database and no cache: its pods are those of two WebApps.
func newPlatform(namespace string, change ...func(*platformv1.EcommercePlatformSpec)) *platformv1.EcommercePlatform {
	p := &platformv1.EcommercePlatform{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop"}}
	p.Spec.Frontend.Image, p.Spec.Backend.Image = "example/frontend:v1", "example/backend:v1"
	p.Spec.Database.ExternalSecretRef = &fettlev1.SecretKeyReference{Name: "database"}
	p.Spec.Cache.Enabled = new(false)
	for _, f := range change {
		f(&p.Spec)
	}
	return p
}

// pausedPlatform leaves it at the AppStack, whose components are not created.
func pausedPlatform(s *platformv1.EcommercePlatformSpec) { s.Paused = true }

// platformReady reads p again and returns the status and reason of Ready, "old" while it describes an older generation.
func platformReady(ctx context.Context, p *platformv1.EcommercePlatform) string {
	if err := read(ctx, p); err != nil {
		return err.Error()
	}
	c := conditions.ReadyOf(p)
	if p.Status.ObservedGeneration < p.Generation || c.ObservedGeneration < p.Generation {
		return "old"
	}
	return string(c.Status) + " " + c.Reason
}

func changePlatform(ctx context.Context, p *platformv1.EcommercePlatform, f func(*platformv1.EcommercePlatformSpec)) {
	GinkgoHelper()
	Expect(read(ctx, p)).To(Succeed())
	before := p.DeepCopy()
	f(&p.Spec)
	Expect(user.Patch(ctx, p, client.MergeFrom(before))).To(Succeed())
}

func shopStack(namespace string) *platformv1.AppStack {
	return &platformv1.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop"}}
}

// stackOf waits until p's AppStack exists, and returns it.
func stackOf(ctx context.Context, p *platformv1.EcommercePlatform) *platformv1.AppStack {
	GinkgoHelper()
	stack := shopStack(p.Namespace)
	Eventually(func(ctx context.Context) (bool, error) {
		err := read(ctx, stack)
		return metav1.IsControlledBy(stack, p), client.IgnoreNotFound(err)
	}).WithContext(ctx).Should(BeTrue())
	return stack
}

// blockOf is the block of a component of stack in JSON.
func blockOf(stack *platformv1.AppStack, name string) string {
	for i := range stack.Spec.Components {
		if c := &stack.Spec.Components[i]; c.Name == name {
			text, err := json.Marshal(c)
			Expect(err).NotTo(HaveOccurred())
			return string(text)
		}
	}
	return "none"
}

func componentBlock(name string) func(*platformv1.AppStack) string {
	return func(stack *platformv1.AppStack) string { return blockOf(stack, name) }
}

var _ = Describe("An EcommercePlatform", func() {
	var namespace string
	BeforeEach(func(ctx context.Context) { namespace = newPlatformNamespace(ctx) })

	It("runs as one AppStack, and has its status", func(ctx context.Context) {
		Expect(user.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "database"},
			StringData: map[string]string{"uri": "postgresql://shop:unguessable@db.example.com/shop"},
		})).To(Succeed())
		p := newPlatform(namespace, func(s *platformv1.EcommercePlatformSpec) {
			s.InheritedMetadata = &fettlev1.InheritedMetadata{Labels: map[string]string{"team": "retail"}}
		})
		Expect(user.Create(ctx, p)).To(Succeed())
		Eventually(platformReady).WithContext(ctx).WithArguments(p).Should(Equal("True Ready"))
		Expect(p.Status.Phase).To(Equal(platformv1.PhaseRunning))
		stack := stackOf(ctx, p)
		Expect(stack.Labels).To(And(HaveKeyWithValue("platform", "shop"), HaveKeyWithValue("team", "retail"), HaveKeyWithValue("fettle.dev/owner-name", "shop")))
		Expect(p.Status.ReadyComponents).To(Equal("3/3"))
		Expect(p.Status.Components).To(HaveLen(3))
		for _, name := range []string{"shop-backend", "shop-frontend"} {
			d := &k8sappsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
			Expect(mustRead(ctx, d).Spec.Template.Labels).To(And(HaveKeyWithValue("platform", "shop"), HaveKeyWithValue("team", "retail")))
		}

		By("changing the frontend to an image that does not start")
		fakeKubelet.Set(namespace, "shop-frontend", testenv.Rollout{Waiting: "ImagePullBackOff"})
		changePlatform(ctx, p, func(s *platformv1.EcommercePlatformSpec) { s.Frontend.Image = "example/frontend:v2" })
		Eventually(platformReady).WithContext(ctx).WithArguments(p).Should(HavePrefix("False "))
		Eventually(field(stack, componentBlock("frontend"))).WithContext(ctx).Should(ContainSubstring("example/frontend:v2"))
		mirrored := func(ctx context.Context) error {
			if err := read(ctx, p); err != nil {
				return err
			}
			if err := read(ctx, stack); err != nil {
				return err
			}
			is, should := conditions.ReadyOf(p), conditions.ReadyOf(stack)
			if is.Status != should.Status || is.Reason != should.Reason || is.Message != should.Message || p.Status.Phase != stack.Status.Phase {
				return fmt.Errorf("Ready is %+v, phase %s, that of the AppStack %+v, %s", is, p.Status.Phase, should, stack.Status.Phase)
			}
			return nil
		}
		Eventually(mirrored).WithContext(ctx).Should(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(mirrored(ctx)).To(Succeed())
			g.Expect(p.Status.Components).To(Equal(stack.Status.Components))
			g.Expect(p.Status.Endpoints).To(Equal(stack.Status.Endpoints))
			g.Expect(p.Status.Effective).To(Equal(stack.Status.Effective))
			g.Expect(p.Status.ReadyComponents).To(Equal(stack.Status.ReadyComponents))
		}).Should(Succeed())
	})

	It("costs one write for the AppStack and one for the status, and pauses with it", func(ctx context.Context) {
		requests := countRequests(ctx, namespace)
		p := newPlatform(namespace, pausedPlatform)
		Expect(user.Create(ctx, p)).To(Succeed())
		Eventually(platformReady).WithContext(ctx).WithArguments(p).Should(Equal("Unknown Paused"))
		Expect(p.Status.Phase).To(Equal(platformv1.Phase("Paused")))
		settle(ctx)
		summary := requests.summary(ctx)
		Expect(to(summary, "appstacks.platform.fettle.dev", "").Writes()).To(Equal(1), summary.String())
		Expect(to(summary, "ecommerceplatforms.platform.fettle.dev", "status").Writes()).To(Equal(1), summary.String())
		Expect(stackOf(ctx, p).Spec.Paused).To(BeTrue())
		requests = countRequests(ctx, namespace)
		patch(ctx, p, `{"metadata":{"annotations":{"fettle.dev/reconcile-at":"1"}}}`)
		requests.expectIdle(ctx)
	})

	It("reports an invalid spec, and changes nothing", func(ctx context.Context) {
		p := newPlatform(namespace, pausedPlatform, func(s *platformv1.EcommercePlatformSpec) {
			s.Frontend.WebApp = &runtime.RawExtension{Raw: []byte(`{"image":"other","port":8080}`)}
		})
		Expect(user.Create(ctx, p)).To(Succeed())
		Eventually(platformReady).WithContext(ctx).WithArguments(p).Should(Equal("False InvalidSpec"))
		Expect(conditions.ReadyOf(p).Message).To(HavePrefix("spec.frontend.webApp.image: Forbidden"))
		Expect(p.Status.Phase).To(Equal(platformv1.PhaseFailed))
		Expect(read(ctx, shopStack(namespace))).To(Satisfy(apierrors.IsNotFound))

		By("correcting it")
		changePlatform(ctx, p, func(s *platformv1.EcommercePlatformSpec) { s.Frontend.WebApp.Raw = []byte(`{"port":8080}`) })
		stack := stackOf(ctx, p)
		Expect(blockOf(stack, "frontend")).To(ContainSubstring(`{"image":"example/frontend:v1","port":8080}`))
		Eventually(platformReady).WithContext(ctx).WithArguments(p).Should(HaveSuffix(" Paused"))

		By("making it invalid again")
		changePlatform(ctx, p, func(s *platformv1.EcommercePlatformSpec) {
			s.Frontend.Image, s.InheritedMetadata = "example/frontend:v2", &fettlev1.InheritedMetadata{Labels: map[string]string{"platform": "other"}}
		})
		Eventually(platformReady).WithContext(ctx).WithArguments(p).Should(Equal("False InvalidSpec"))
		Expect(mustRead(ctx, stack.DeepCopy()).Spec).To(Equal(stack.Spec))
	})

	It("does not take over an AppStack of its name, and continues when the name is free", func(ctx context.Context) {
		foreign := shopStack(namespace)
		foreign.Spec.Paused = true
		foreign.Spec.Components = []platformv1.AppStackComponent{{Name: "cache", Cache: &platformv1.Cache{}}}
		Expect(user.Create(ctx, foreign)).To(Succeed())
		p := newPlatform(namespace, pausedPlatform)
		Expect(user.Create(ctx, p)).To(Succeed())
		Eventually(platformReady).WithContext(ctx).WithArguments(p).Should(Equal("False NameConflict"))
		Expect(conditions.ReadyOf(p).Message).To(ContainSubstring(`AppStack "shop" exists and is not controlled by this EcommercePlatform`))
		Expect(p.Status.Components).To(BeEmpty())
		Expect(mustRead(ctx, foreign).Spec.Components).To(HaveLen(1))
		Expect(user.Delete(ctx, foreign)).To(Succeed())
		stackOf(ctx, p)
		Eventually(platformReady).WithContext(ctx).WithArguments(p).Should(HaveSuffix(" Paused"))
	})

	It("reports that an admission policy rejects the AppStack, and continues when the policy is gone", func(ctx context.Context) {
		lift := deny(ctx, namespace, rule("platform.fettle.dev", "appstacks", admissionv1.Create))
		DeferCleanup(lift)
		probe := shopStack(namespace)
		probe.Spec.Components = []platformv1.AppStackComponent{{Name: "cache", Cache: &platformv1.Cache{}}}
		Eventually(func(ctx context.Context) error { return user.Create(ctx, probe.DeepCopy(), client.DryRunAll) }).
			WithContext(ctx).Should(MatchError(ContainSubstring(policyText)))
		p := newPlatform(namespace, pausedPlatform)
		Expect(user.Create(ctx, p)).To(Succeed())
		Eventually(platformReady).WithContext(ctx).WithArguments(p).Should(Equal("False Invalid"))
		Expect(conditions.ReadyOf(p).Message).To(ContainSubstring(policyText))
		lift(ctx)
		stackOf(ctx, p)
	})

	It("repairs drift of the AppStack, and re-creates it", func(ctx context.Context) {
		p := newPlatform(namespace, pausedPlatform)
		Expect(user.Create(ctx, p)).To(Succeed())
		stack := stackOf(ctx, p)
		patch(ctx, stack, `{"spec":{"environment":"production"},"metadata":{"labels":{"platform":"other"}}}`)
		Eventually(field(stack, func(s *platformv1.AppStack) string { return string(s.Spec.Environment) + s.Labels["platform"] })).
			WithContext(ctx).Should(Equal("developmentshop"))
		first := stack.UID
		Expect(user.Delete(ctx, stack)).To(Succeed())
		Eventually(func(ctx context.Context) (types.UID, error) {
			err := read(ctx, stack)
			return stack.UID, client.IgnoreNotFound(err)
		}).WithContext(ctx).ShouldNot(Equal(first))
		stackOf(ctx, p)
	})

	It("monitors the database while the cluster has the Prometheus Operator", func(ctx context.Context) {
		p := newPlatform(namespace, pausedPlatform, func(s *platformv1.EcommercePlatformSpec) { s.Database = platformv1.EcommerceDatabase{} })
		Expect(user.Create(ctx, p)).To(Succeed())
		stack := stackOf(ctx, p)
		Expect(blockOf(stack, "db")).NotTo(ContainSubstring("monitoring"))
		definitions := []*apiextensionsv1.CustomResourceDefinition{prometheusCRD("PodMonitor"), prometheusCRD("PrometheusRule")}
		DeferCleanup(prometheusGone)
		for _, crd := range definitions {
			Expect(user.Create(ctx, crd)).To(Succeed())
			DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(user.Delete(ctx, crd))).To(Succeed()) })
		}
		Eventually(field(stack, componentBlock("db"))).WithContext(ctx).Should(ContainSubstring(`"monitoring":{"enabled":true}`))
		Expect(user.Delete(ctx, definitions[0])).To(Succeed())
		Eventually(field(stack, componentBlock("db"))).WithContext(ctx).ShouldNot(ContainSubstring("monitoring"))
	})
})

// prometheusGone waits until the API server no longer lists the kinds of the Prometheus Operator.
func prometheusGone(ctx context.Context) {
	GinkgoHelper()
	served, err := discovery.NewDiscoveryClientForConfig(env.Admin)
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() (string, error) {
		groups, err := served.ServerGroups()
		return groups.String(), err
	}).WithContext(ctx).ShouldNot(ContainSubstring("monitoring.coreos.com"))
}

// prometheusCRD defines as much of a kind of the Prometheus Operator as the operator uses.
func prometheusCRD(kind string) *apiextensionsv1.CustomResourceDefinition {
	singular := map[string]string{"PodMonitor": "podmonitor", "PrometheusRule": "prometheusrule"}[kind]
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: singular + "s.monitoring.coreos.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "monitoring.coreos.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, ListKind: kind + "List", Plural: singular + "s", Singular: singular},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)},
				},
			}},
		},
	}
}
