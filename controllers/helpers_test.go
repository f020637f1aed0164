package controllers_test

import (
	"context"
	"fmt"
	"reflect"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	k8sappsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/testenv"
	"github.com/fettle-dev/fettle/test/audit"
)

// newNamespace is a namespace for one spec. Its WebApps go at the end, so that they don't keep the operator busy.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	name, err := env.NewNamespace(ctx, "webapp")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx context.Context) {
		Expect(user.DeleteAllOf(ctx, &appsv1.WebApp{}, client.InNamespace(name))).To(Succeed())
	})
	return name
}

func newApp(namespace, name string, change ...func(*appsv1.WebAppSpec)) *appsv1.WebApp {
	app := &appsv1.WebApp{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       appsv1.WebAppSpec{Image: "nginx:1.25", Replicas: new(int32(3))},
	}
	for _, f := range change {
		f(&app.Spec)
	}
	return app
}

// createReady creates app and waits until it is Ready.
func createReady(ctx context.Context, app *appsv1.WebApp) {
	GinkgoHelper()
	Expect(user.Create(ctx, app)).To(Succeed())
	Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("True Ready"))
}

// ready reads app again and says the status and reason of Ready, "old" while it speaks of an older generation.
func ready(ctx context.Context, app *appsv1.WebApp) string {
	return condition(ctx, app, fettlev1.Ready)
}

func condition(ctx context.Context, app *appsv1.WebApp, conditionType string) string {
	if err := read(ctx, app); err != nil {
		return err.Error()
	}
	c := meta.FindStatusCondition(app.Status.Conditions, conditionType)
	switch {
	case c == nil:
		return "none"
	case app.Status.ObservedGeneration < app.Generation:
		return "old"
	default:
		return string(c.Status) + " " + c.Reason
	}
}

func message(app *appsv1.WebApp, conditionType string) string {
	if c := meta.FindStatusCondition(app.Status.Conditions, conditionType); c != nil {
		return c.Message
	}
	return ""
}

// read reads an object into an empty one, so that removed fields do not stay.
func read(ctx context.Context, obj client.Object) error {
	fresh := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(client.Object)
	fresh.GetObjectKind().SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
	if err := user.Get(ctx, client.ObjectKeyFromObject(obj), fresh); err != nil {
		return err
	}
	reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(fresh).Elem())
	return nil
}

// field reads obj at each call and returns what get says of it.
func field[T any, O client.Object](obj O, get func(O) T) func(context.Context) (T, error) {
	return func(ctx context.Context) (T, error) {
		err := read(ctx, obj)
		return get(obj), err
	}
}

// change patches the spec of app as a user would.
func change(ctx context.Context, app *appsv1.WebApp, f func(*appsv1.WebAppSpec)) {
	GinkgoHelper()
	Expect(read(ctx, app)).To(Succeed())
	before := app.DeepCopy()
	f(&app.Spec)
	Expect(user.Patch(ctx, app, client.MergeFrom(before))).To(Succeed())
}

// patch sends a merge patch, or a JSON patch if it is a list.
func patch(ctx context.Context, obj client.Object, format string, args ...any) {
	GinkgoHelper()
	body, kind := fmt.Appendf(nil, format, args...), types.MergePatchType
	if body[0] == '[' {
		kind = types.JSONPatchType
	}
	Expect(user.Patch(ctx, obj, client.RawPatch(kind, body))).To(Succeed())
}

// touch triggers one more reconcile of app.
func touch(ctx context.Context, app *appsv1.WebApp, value string) {
	GinkgoHelper()
	patch(ctx, app, `{"metadata":{"annotations":{"fettle.dev/reconcile-at":%q}}}`, value)
}

// child is an empty object of the kind with the app's name.
func child[O client.Object](app *appsv1.WebApp, obj O) O {
	obj.SetNamespace(app.Namespace)
	obj.SetName(app.Name)
	return obj
}

func deploymentOf(app *appsv1.WebApp) *k8sappsv1.Deployment {
	return child(app, &k8sappsv1.Deployment{})
}

func replicasOf(d *k8sappsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return -1
	}
	return *d.Spec.Replicas
}

func imageOf(d *k8sappsv1.Deployment) string {
	if len(d.Spec.Template.Spec.Containers) == 0 {
		return ""
	}
	return d.Spec.Template.Spec.Containers[0].Image
}

func generationOf(d *k8sappsv1.Deployment) int64 { return d.Generation }

// requestCounts counts what the operator asked of the API server from now on, in one namespace or ("") everywhere.
type requestCounts struct {
	from   audit.Position
	filter audit.Filter
}

func countRequests(ctx context.Context, namespace string) requestCounts {
	GinkgoHelper()
	from, err := auditRecorder.Mark(ctx)
	Expect(err).NotTo(HaveOccurred())
	return requestCounts{from, audit.Filter{User: testenv.OperatorUser, Namespace: namespace}}
}

func (l requestCounts) summary(ctx context.Context) audit.Summary {
	GinkgoHelper()
	summary, err := auditRecorder.Since(ctx, l.from, l.filter)
	Expect(err).NotTo(HaveOccurred())
	return summary
}

// to chooses the requests for one resource, such as "deployments.apps", or a subresource of it.
func to(summary audit.Summary, resource, subresource string) audit.Summary {
	return summary.Where(func(k audit.Key) bool { return k.Resource == resource && k.Subresource == subresource })
}

// rejectedWrites counts the writes that the API server rejected.
func rejectedWrites(summary audit.Summary) int {
	total := 0
	for key, count := range summary.Counts {
		if key.Class == audit.Write {
			total += count.Rejected
		}
	}
	return total
}

// expectIdle asserts that the operator neither writes nor reads, from the mark on until a while from now.
func (l requestCounts) expectIdle(ctx context.Context) {
	GinkgoHelper()
	Consistently(ctx.Err, still, "500ms").Should(Succeed())
	summary := l.summary(ctx)
	Expect(summary.Writes()).To(BeZero(), summary.String())
	Expect(summary.LiveReads()).To(BeZero(), summary.String())
}

// settle waits for longer than any status is held back.
func settle(ctx context.Context) {
	GinkgoHelper()
	Consistently(ctx.Err, "3500ms", "500ms").Should(Succeed())
}
