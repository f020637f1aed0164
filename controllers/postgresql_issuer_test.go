package controllers_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/pki"
)

// certManager plays cert-manager with one issuer.
type certManager struct {
	authority *pki.CA
	request   *unstructured.Unstructured
}

func startCertManager(pg *databasev1alpha1.PostgreSQL) *certManager {
	GinkgoHelper()
	authority, err := pki.NewCA("issuer", time.Now())
	Expect(err).NotTo(HaveOccurred())
	request := &unstructured.Unstructured{}
	request.SetAPIVersion("cert-manager.io/v1")
	request.SetKind("Certificate")
	request.SetNamespace(pg.Namespace)
	request.SetName(pg.Name + "-tls")
	return &certManager{authority, request}
}

// say sets the condition of the request.
func (m *certManager) say(ctx context.Context, status, message string) {
	GinkgoHelper()
	Expect(read(ctx, m.request)).To(Succeed())
	condition := map[string]any{"type": "Ready", "status": status, "reason": "Test", "message": message}
	before := m.request.DeepCopy()
	Expect(unstructured.SetNestedSlice(m.request.Object, []any{condition}, "status", "conditions")).To(Succeed())
	Expect(user.Patch(ctx, m.request, client.MergeFrom(before))).To(Succeed())
}

// issue answers the request, and returns the certificate.
func (m *certManager) issue(ctx context.Context) []byte {
	GinkgoHelper()
	Expect(read(ctx, m.request)).To(Succeed())
	hosts, _, err := unstructured.NestedStringSlice(m.request.Object, "spec", "dnsNames")
	Expect(err).NotTo(HaveOccurred())
	labels, _, err := unstructured.NestedStringMap(m.request.Object, "spec", "secretTemplate", "labels")
	Expect(err).NotTo(HaveOccurred())
	pair, err := m.authority.Server(hosts, time.Now())
	Expect(err).NotTo(HaveOccurred())
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: m.request.GetNamespace(), Name: m.request.GetName()}}
	data := map[string][]byte{"tls.crt": pair.Certificate, "tls.key": pair.Key, "ca.crt": m.authority.Certificate}
	if apierrors.IsNotFound(read(ctx, secret)) {
		secret.Type, secret.Labels, secret.Data = corev1.SecretTypeTLS, labels, data
		Expect(user.Create(ctx, secret)).To(Succeed())
	} else {
		secret.Data = data
		Expect(user.Update(ctx, secret)).To(Succeed())
	}
	m.say(ctx, "True", "issued")
	return pair.Certificate
}

var _ = Describe("A PostgreSQL with a certificate of an issuer", func() {
	It("serves it once all instances have its CA, and keeps the former certificate until then", func(ctx context.Context) {
		namespace, _ := newDatabases(ctx)
		pg := newPostgreSQL(namespace, "issued", func(s *databasev1alpha1.PostgreSQLSpec) {
			s.TLS.IssuerRef = &databasev1alpha1.PostgreSQLIssuerRef{Name: "internal"}
			s.TLS.DNSNames = []string{"db.example.com"}
		})
		manager := startCertManager(pg)
		certified := func(ctx context.Context) string { return pgCondition(ctx, pg, databasev1alpha1.PostgreSQLCertified) }
		told := func() string {
			return meta.FindStatusCondition(pg.Status.Conditions, databasev1alpha1.PostgreSQLCertified).Message
		}
		server, standbys := secretOf(pg, "-server"), secretOf(pg, "-replication")
		served := field(server, func(s *corev1.Secret) string { return string(s.Data["served.crt"]) })
		Expect(user.Create(ctx, pg)).To(Succeed())
		Eventually(certified).WithContext(ctx).Should(Equal("False APIMissing"))
		Eventually(pgCondition).WithContext(ctx).WithArguments(pg, databasev1alpha1.PostgreSQLPrimaryReady).Should(Equal("True PrimaryReady"))

		By("asking for it when cert-manager is installed")
		_, err := envtest.InstallCRDs(env.Admin, optionalCRDs)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(uninstall)
		Eventually(certified).WithContext(ctx).Should(Equal("Unknown Reconciling"))
		Expect(read(ctx, manager.request)).To(Succeed())
		Expect(manager.request.Object["spec"]).To(HaveKeyWithValue("issuerRef", map[string]any{"name": "internal", "kind": "Issuer", "group": "cert-manager.io"}))
		Expect(manager.request.Object["spec"]).To(HaveKeyWithValue("dnsNames", ContainElements("issued."+namespace+".svc", "db.example.com")))
		manager.say(ctx, "False", `issuer "internal" not found`)
		Eventually(certified).WithContext(ctx).Should(Equal("False IssuerNotReady"))
		Expect(told()).To(ContainSubstring(`issuer "internal" not found`))

		By("making its authority known first")
		first := manager.issue(ctx)
		Eventually(field(server, func(s *corev1.Secret) bool { return pki.Contains(s.Data["root.crt"], manager.authority.Certificate) })).
			WithContext(ctx).Should(BeTrue())
		Eventually(certified).WithContext(ctx).Should(Equal("Unknown Reconciling"))
		Expect(served(ctx)).To(BeEmpty())
		Expect(pki.Contains(server.Data["root.crt"], server.Data["ca.crt"])).To(BeTrue(), "clients that know Fettle's authority alone were left behind")
		Expect(read(ctx, standbys)).To(Succeed())
		Expect(standbys.Data["ca.crt"]).To(Equal(server.Data["root.crt"]))
		Expect(pki.Contains(server.Data["ca.crt"], manager.authority.Certificate)).To(BeFalse(), "agents would trust the issuer")

		By("serving it two minutes later")
		Eventually(func(ctx context.Context) (string, error) { // a pass that had read it before may bring the annotation back
			patch(ctx, server, `{"metadata":{"annotations":{"fettle.dev/roots-since":"2026-01-01T00:00:00Z"}}}`)
			return served(ctx)
		}).WithContext(ctx).WithPolling(time.Second).Should(Equal(string(first)))
		Eventually(pgReady).WithContext(ctx).WithArguments(pg).Should(Equal("True Ready"))
		own := server.Data["tls.crt"]
		Expect(own).NotTo(Equal(first))

		By("keeping it while the next one is damaged")
		patch(ctx, secretOf(pg, "-tls"), `{"data":{"tls.crt":"ZGFtYWdlZA=="}}`)
		Eventually(certified).WithContext(ctx).Should(Equal("False CertificateUnusable"))
		Expect(served(ctx)).To(Equal(string(first)))

		By("serving a renewed one at once")
		second := manager.issue(ctx)
		Eventually(served).WithContext(ctx).Should(Equal(string(second)))
		Eventually(certified).WithContext(ctx).Should(Equal("True Certified"))
		Expect(server.Data["tls.crt"]).To(Equal(own), "the agents' certificate has changed")
		settle(ctx)
		requests := countRequests(ctx, namespace)
		settle(ctx)
		requests.expectIdle(ctx)

		By("going back to its own when no issuer is asked any more")
		changeDatabase(ctx, pg, func(pg *databasev1alpha1.PostgreSQL) { pg.Spec.TLS.IssuerRef = nil })
		Eventually(served).WithContext(ctx).Should(BeEmpty())
		Eventually(func() error { return read(ctx, manager.request) }).Should(Satisfy(apierrors.IsNotFound))
		Eventually(certified).WithContext(ctx).Should(Equal("none"))
		Eventually(pgReady).WithContext(ctx).WithArguments(pg).Should(Equal("True Ready"))
	})

	It("leaves a foreign Secret alone", func(ctx context.Context) {
		_, err := envtest.InstallCRDs(env.Admin, optionalCRDs)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(uninstall)
		namespace, _ := newDatabases(ctx)
		pg := newPostgreSQL(namespace, "taken", func(s *databasev1alpha1.PostgreSQLSpec) {
			s.TLS.IssuerRef = &databasev1alpha1.PostgreSQLIssuerRef{Name: "internal"}
		})
		Expect(user.Create(ctx, secretOf(pg, "-tls"))).To(Succeed())
		Expect(user.Create(ctx, pg)).To(Succeed())
		Eventually(pgCondition).WithContext(ctx).WithArguments(pg, databasev1alpha1.PostgreSQLCertified).Should(Equal("False NameConflict"))
		Expect(read(ctx, startCertManager(pg).request)).To(Satisfy(apierrors.IsNotFound))
		Eventually(pgCondition).WithContext(ctx).WithArguments(pg, databasev1alpha1.PostgreSQLPrimaryReady).Should(Equal("True PrimaryReady"))
	})
})
