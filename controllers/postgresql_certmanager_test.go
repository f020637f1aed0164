package controllers_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
)

// realCertManager names the program of hack/tools/cert-manager, and with it asks for the specs below: `make cert-manager`.
const realCertManager = "FETTLE_CERT_MANAGER"

// startRealCertManager installs cert-manager's own definitions, and runs it until the spec has ended.
func startRealCertManager() {
	GinkgoHelper()
	program := os.Getenv(realCertManager)
	module, err := exec.Command("go", "-C", "../hack/tools/cert-manager", "list", "-m", "-f", "{{.Dir}}", "github.com/cert-manager/cert-manager").Output()
	Expect(err).NotTo(HaveOccurred())
	crds := envtest.CRDInstallOptions{Paths: []string{filepath.Join(strings.TrimSpace(string(module)), "deploy/crds")}, ErrorIfPathMissing: true}
	_, err = envtest.InstallCRDs(env.Admin, crds)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx context.Context) {
		Expect(envtest.UninstallCRDs(env.Admin, crds)).To(Succeed())
		uninstall(ctx)
	})
	file := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(clientcmd.WriteToFile(*kubeconfigOf(env.Admin), file)).To(Succeed())
	process := exec.Command(program, file)
	process.Stdout, process.Stderr = GinkgoWriter, GinkgoWriter
	Expect(process.Start()).To(Succeed())
	DeferCleanup(func() {
		Expect(process.Process.Signal(os.Interrupt)).To(Succeed())
		_ = process.Wait() // it was told to end
	})
}

func kubeconfigOf(config *rest.Config) *clientcmdapi.Config {
	const name = "test"
	file := clientcmdapi.NewConfig()
	file.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	file.CurrentContext = name
	return file
}

// certManagerObject is one of cert-manager's, whose spec is YAML.
func certManagerObject(kind, namespace, name, spec string) *unstructured.Unstructured {
	GinkgoHelper()
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetAPIVersion("cert-manager.io/v1")
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	var fields map[string]any
	Expect(yaml.Unmarshal([]byte(spec), &fields)).To(Succeed())
	o.Object["spec"] = fields
	return o
}

// isIssuing replaces the condition by which cert-manager is at work; a renewal by hand begins so too.
func isIssuing(ctx context.Context, certificate *unstructured.Unstructured, since time.Time) {
	GinkgoHelper()
	Eventually(func(ctx context.Context) error { // cert-manager writes it too
		if err := read(ctx, certificate); err != nil {
			return err
		}
		conditions, _, err := unstructured.NestedSlice(certificate.Object, "status", "conditions")
		if err != nil {
			return err
		}
		kept := []any{map[string]any{
			"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "by hand", "lastTransitionTime": since.UTC().Format(time.RFC3339),
		}}
		for _, c := range conditions {
			if c.(map[string]any)["type"] != "Issuing" {
				kept = append(kept, c)
			}
		}
		if err := unstructured.SetNestedSlice(certificate.Object, kept, "status", "conditions"); err != nil {
			return err
		}
		return user.Status().Update(ctx, certificate)
	}).WithContext(ctx).Should(Succeed())
}

// vouches reports whether one of the authorities in roots has signed the certificate for the host.
func vouches(roots, certificate []byte, host string) error {
	GinkgoHelper()
	pool := x509.NewCertPool()
	Expect(pool.AppendCertsFromPEM(roots)).To(BeTrue())
	block, _ := pem.Decode(certificate)
	Expect(block).NotTo(BeNil())
	parsed, err := x509.ParseCertificate(block.Bytes)
	Expect(err).NotTo(HaveOccurred())
	_, err = parsed.Verify(x509.VerifyOptions{Roots: pool, DNSName: host})
	return err
}

func init() {
	if os.Getenv(realCertManager) != "" {
		Describe("cert-manager itself", realCertManagerSpecs)
	}
}

func realCertManagerSpecs() {
	BeforeEach(startRealCertManager)

	It("issues the certificate of a PostgreSQL, and renews it", func(ctx context.Context) {
		namespace, _ := newDatabases(ctx)
		pg := newPostgreSQL(namespace, "real", func(s *databasev1alpha1.PostgreSQLSpec) {
			s.TLS.IssuerRef = &databasev1alpha1.PostgreSQLIssuerRef{Name: "internal"}
			s.TLS.DNSNames = []string{"db.example.com"}
		})
		certified := func(ctx context.Context) string { return pgCondition(ctx, pg, databasev1alpha1.PostgreSQLCertified) }
		told := func() string {
			for _, c := range pg.Status.Conditions {
				if c.Type == databasev1alpha1.PostgreSQLCertified {
					return c.Message
				}
			}
			return ""
		}
		request, server, issued := certManagerObject("Certificate", namespace, "real-tls", ""), secretOf(pg, "-server"), secretOf(pg, "-tls")
		served := field(server, func(s *corev1.Secret) string { return string(s.Data["served.crt"]) })

		By("waiting for an issuer that is missing, and saying where the reason is")
		Expect(user.Create(ctx, pg)).To(Succeed())
		Eventually(certified).WithContext(ctx).Should(Equal("Unknown Reconciling"))
		requests := &unstructured.UnstructuredList{}
		requests.SetAPIVersion("cert-manager.io/v1")
		requests.SetKind("CertificateRequestList")
		Eventually(func(ctx context.Context) (string, error) {
			err := user.List(ctx, requests, client.InNamespace(namespace), client.MatchingLabels{"fettle.dev/owner-name": "real"})
			text, _ := requests.MarshalJSON()
			return string(text), err
		}).WithContext(ctx).Should(ContainSubstring(`\"internal\" not found`))
		Expect(certified(ctx)).To(Equal("Unknown Reconciling"))
		isIssuing(ctx, request, time.Now().Add(-time.Hour))
		Eventually(certified).WithContext(ctx).Should(Equal("False IssuerNotReady"))
		Expect(told()).To(ContainSubstring("describe certificaterequests -l fettle.dev/owner-name=real"))

		By("serving the issuer's certificate once all clients have its CA")
		for _, o := range []*unstructured.Unstructured{
			certManagerObject("Issuer", namespace, "itself", "selfSigned: {}"),
			certManagerObject("Certificate", namespace, "internal", "{isCA: true, commonName: internal, secretName: internal, issuerRef: {name: itself}}"),
			certManagerObject("Issuer", namespace, "internal", "ca: {secretName: internal}"),
		} {
			Expect(user.Create(ctx, o)).To(Succeed())
		}
		Eventually(func(ctx context.Context) error { return read(ctx, issued) }).WithContext(ctx).WithTimeout(2 * soon).Should(Succeed())
		first := string(issued.Data["tls.crt"])
		Eventually(func(ctx context.Context) (string, error) { // a pass that had read it before may bring the annotation back
			patch(ctx, server, `{"metadata":{"annotations":{"fettle.dev/roots-since":"2026-01-01T00:00:00Z"}}}`)
			return served(ctx)
		}).WithContext(ctx).WithPolling(time.Second).Should(Equal(first))
		Eventually(certified).WithContext(ctx).Should(Equal("True Certified"))
		for _, host := range []string{"real." + namespace + ".svc", "db.example.com", "real-0.real-pods." + namespace + ".svc"} {
			Expect(vouches(server.Data["root.crt"], []byte(first), host)).To(Succeed())
		}

		By("serving a renewed one, and one whose Secret was deleted")
		isIssuing(ctx, request, time.Now())
		Eventually(served).WithContext(ctx).Should(SatisfyAll(Not(BeEmpty()), Not(Equal(first))))
		second := string(server.Data["served.crt"])
		Expect(user.Delete(ctx, issued)).To(Succeed())
		Eventually(served).WithContext(ctx).Should(SatisfyAll(Not(BeEmpty()), Not(Equal(first)), Not(Equal(second))))
		Expect(vouches(server.Data["root.crt"], server.Data["served.crt"], "db.example.com")).To(Succeed())
		Eventually(certified).WithContext(ctx).Should(Equal("True Certified"))
	})

	It("issues the certificate of the operator's webhooks, and renews it with the same CA", func(ctx context.Context) {
		const namespace = "fettle-system"
		Expect(client.IgnoreAlreadyExists(user.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))).To(Succeed())
		manifests, err := os.ReadFile("../config/certmanager/certificate.yaml")
		Expect(err).NotTo(HaveOccurred())
		for text := range bytes.SplitSeq(manifests, []byte("\n---\n")) {
			o := &unstructured.Unstructured{}
			Expect(yaml.Unmarshal(text, o)).To(Succeed())
			Expect(user.Create(ctx, o)).To(Succeed())
		}
		hooks := &admissionv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "injected", Annotations: map[string]string{"cert-manager.io/inject-ca-from": namespace + "/fettle-webhook-cert"}},
			Webhooks: []admissionv1.ValidatingWebhook{{
				Name: "nothing.fettle.dev", SideEffects: new(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
				ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: namespace, Name: "fettle-controller-manager-service"}},
			}},
		}
		Expect(user.Create(ctx, hooks)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(user.Delete(ctx, hooks)).To(Succeed()) })
		authority := field(hooks, func(h *admissionv1.ValidatingWebhookConfiguration) []byte { return h.Webhooks[0].ClientConfig.CABundle })
		Eventually(authority).WithContext(ctx).WithTimeout(2 * soon).ShouldNot(BeEmpty())
		injected := hooks.Webhooks[0].ClientConfig.CABundle

		certificate := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fettle-webhook-cert"}}
		made := field(certificate, func(s *corev1.Secret) string { return string(s.Data["tls.crt"]) })
		Expect(made(ctx)).NotTo(BeEmpty())
		first := string(certificate.Data["tls.crt"])
		isIssuing(ctx, certManagerObject("Certificate", namespace, "fettle-webhook-cert", ""), time.Now())
		Eventually(made).WithContext(ctx).ShouldNot(Equal(first))
		for _, c := range []string{first, string(certificate.Data["tls.crt"])} {
			Expect(vouches(injected, []byte(c), "fettle-controller-manager-service.fettle-system.svc")).To(Succeed())
		}
		Consistently(authority).WithContext(ctx).Should(Equal(injected), "callers would not trust what pods still serve")
	})
}
