package controllers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
)

// rejections answers some of the operator's requests instead of the API server, which does not receive them: nothing changes,
// and no event comes.
type rejections struct {
	mu sync.Mutex
	// next are the answers to the next requests, by method and the end of the path.
	next map[string][]metav1.StatusReason
}

var rejecting = &rejections{next: map[string][]metav1.StatusReason{}}

// expect rejects the next requests, one for each reason. They must have come by the end of the spec.
func (r *rejections) expect(method, path string, reasons ...metav1.StatusReason) {
	GinkgoHelper()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next[method+" "+path] = reasons
	DeferCleanup(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		Expect(r.next).NotTo(HaveKey(method+" "+path), "requests that were to be rejected never came")
	})
}

// wrap is for the operator's client.
func (r *rejections) wrap(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if reason := r.take(request); reason != "" {
				return rejection(request, reason), nil
			}
			return next.RoundTrip(request)
		})
	})
	return config
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func (r *rejections) take(request *http.Request) metav1.StatusReason {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, reasons := range r.next {
		method, path, _ := strings.Cut(key, " ")
		if request.Method != method || !strings.HasSuffix(request.URL.Path, path) {
			continue
		}
		if r.next[key] = reasons[1:]; len(reasons) == 1 {
			delete(r.next, key)
		}
		return reasons[0]
	}
	return ""
}

func rejection(request *http.Request, reason metav1.StatusReason) *http.Response {
	code := http.StatusConflict
	if reason == metav1.StatusReasonNotFound {
		code = http.StatusNotFound
	}
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason,
		Message: "rejected by the test",
	})
	Expect(err).NotTo(HaveOccurred())
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: request,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
}

var _ = Describe("A write that is rejected with a conflict although nothing changed", func() {
	const conflict, notFound = metav1.StatusReasonConflict, metav1.StatusReasonNotFound

	It("is retried: of the dashboards", func(ctx context.Context) {
		dashboards := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: "fettle-dashboards"}}
		content := field(dashboards, func(m *corev1.ConfigMap) string { return m.Data["fettle-postgresql.json"] })
		Eventually(content).WithContext(ctx).Should(ContainSubstring(`"title": "Fettle / PostgreSQL"`))
		settle(ctx)
		rejecting.expect(http.MethodPatch, "/default/configmaps/fettle-dashboards", conflict, notFound)
		patch(ctx, dashboards, `{"data":{"fettle-postgresql.json":"{}"}}`)
		Eventually(content).WithContext(ctx).Should(ContainSubstring(`"title": "Fettle / PostgreSQL"`))
	})

	It("is retried: of the annotation on a workload, before and after its AppConfig is gone", func(ctx context.Context) {
		namespace := newConfigNamespace(ctx)
		rejecting.expect(http.MethodPatch, namespace+"/deployments/web", conflict, notFound)
		createRunning(ctx, consumer(namespace, "web", "shop-config"))
		cfg := newConfig(namespace, "shop")
		createConfigReady(ctx, cfg)
		note := noteOn(consumer(namespace, "web", ""), "config.fettle.dev/shop")
		Eventually(note).WithContext(ctx).ShouldNot(BeEmpty())
		settle(ctx)
		rejecting.expect(http.MethodPatch, namespace+"/deployments/web", notFound, conflict)
		Expect(user.Delete(ctx, cfg)).To(Succeed())
		Eventually(note).WithContext(ctx).Should(BeEmpty())
	})

	It("is retried: of the annotation on a workload, before and after its VoteConfig is gone", func(ctx context.Context) {
		namespace := newVoteNamespace(ctx)
		rejecting.expect(http.MethodPatch, namespace+"/deployments/app", conflict, notFound)
		createRunning(ctx, consumer(namespace, "app", "vote-config"))
		vc := newVote(namespace, "vote", "Cats", "Dogs")
		createVoteReady(ctx, vc)
		note := noteOn(consumer(namespace, "app", ""), "voting.fettle.dev/vote")
		Eventually(note).WithContext(ctx).ShouldNot(BeEmpty())
		settle(ctx)
		rejecting.expect(http.MethodPatch, namespace+"/deployments/app", notFound, conflict)
		Expect(user.Delete(ctx, vc)).To(Succeed())
		Eventually(note).WithContext(ctx).Should(BeEmpty())
	})

	It("is retried: of the volumes of a PostgreSQL, of its StatefulSet, and of its pods", func(ctx context.Context) {
		namespace, fake := newDatabases(ctx)
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Provisioner: "example.com/fake", AllowVolumeExpansion: new(true)}
		Expect(user.Create(ctx, class)).To(Succeed())
		pg := newPostgreSQL(namespace, "db", instances(2), func(s *databasev1alpha1.PostgreSQLSpec) { s.StorageClassName = &class.Name })
		createDatabase(ctx, pg)
		rejecting.expect(http.MethodPatch, namespace+"/persistentvolumeclaims/data-db-1", conflict)
		rejecting.expect(http.MethodDelete, namespace+"/statefulsets/db", notFound)
		rejecting.expect(http.MethodDelete, namespace+"/pods/db-1", conflict)
		changeDatabase(ctx, pg, func(pg *databasev1alpha1.PostgreSQL) {
			pg.Spec.Storage = resource.MustParse("3Gi")
			pg.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}
		})
		Eventually(func() []string {
			var replaced []string
			fake.Update(func(d *databases) { replaced = slices.Clone(d.Replaced) })
			return replaced
		}, "60s").Should(Equal([]string{"db-1", "db-0"}))
		Eventually(pgReady, "60s").WithContext(ctx).WithArguments(pg).Should(Equal("True Ready"))
	})
})

// noteOn reads an annotation of a workload at each call.
func noteOn(d *k8sappsv1.Deployment, key string) func(context.Context) (string, error) {
	return field(d, func(d *k8sappsv1.Deployment) string { return d.Annotations[key] })
}
