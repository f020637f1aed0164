package controllers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	canaries "github.com/fettle-dev/fettle/test/canary"
)

// outputs are the operator's log and the objects that it writes. They must contain no value of any Secret.
type outputs struct {
	secrets canaries.Values

	mu  sync.Mutex
	log bytes.Buffer
	// said are the statuses and annotations of Fettle's own objects, each version of them, and where the first was.
	said map[string]string
}

var operatorOutput = &outputs{said: map[string]string{}}

var secretsOf = corev1.SchemeGroupVersion.WithResource("secrets")

// Write implements io.Writer, for logs.
func (t *outputs) Write(line []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.log.Write(line)
}

// listen takes down every Secret and every version of Fettle's objects until ctx ends.
func (t *outputs) listen(ctx context.Context) {
	GinkgoHelper()
	cluster, err := dynamic.NewForConfig(env.Admin)
	Expect(err).NotTo(HaveOccurred())
	for _, resource := range listable() {
		if resource != secretsOf && !strings.HasSuffix(resource.Group, "fettle.dev") {
			continue
		}
		go func() {
			for ctx.Err() == nil { // the API server ends a watch after a while
				events, err := cluster.Resource(resource).Watch(ctx, metav1.ListOptions{})
				if err != nil {
					continue
				}
				for event := range events.ResultChan() {
					if object, ok := event.Object.(*unstructured.Unstructured); ok && event.Type != watch.Bookmark {
						t.hear(resource, object)
					}
				}
			}
		}()
	}
}

func (t *outputs) hear(resource schema.GroupVersionResource, object *unstructured.Unstructured) {
	where := resource.Resource + " " + object.GetNamespace() + "/" + object.GetName()
	if resource == secretsOf {
		secret := &corev1.Secret{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, secret) == nil {
			t.secrets.AddSecret(object.GetNamespace()+"/"+object.GetName(), secret.Data)
		}
		return
	}
	text, err := json.Marshal([]any{object.Object["status"], object.GetAnnotations()})
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.said[string(text)]; err == nil && !known {
		t.said[string(text)] = where
	}
}

// listable are the kinds of objects that there are.
func listable() []schema.GroupVersionResource {
	GinkgoHelper()
	client, err := discovery.NewDiscoveryClientForConfig(env.Admin)
	Expect(err).NotTo(HaveOccurred())
	groups, err := client.ServerPreferredResources()
	Expect(err).NotTo(HaveOccurred())
	var out []schema.GroupVersionResource
	for _, group := range groups {
		gv, err := schema.ParseGroupVersion(group.GroupVersion)
		Expect(err).NotTo(HaveOccurred())
		for _, resource := range group.APIResources {
			if slices.Contains(resource.Verbs, "list") && slices.Contains(resource.Verbs, "watch") {
				out = append(out, gv.WithResource(resource.Name))
			}
		}
	}
	return out
}

// found returns where a value was found: in the log, in statuses and annotations, and in all written objects except Secrets.
func (t *outputs) found(ctx context.Context) []string {
	GinkgoHelper()
	cluster, err := dynamic.NewForConfig(env.Admin)
	Expect(err).NotTo(HaveOccurred())
	objects := map[schema.GroupVersionResource][]unstructured.Unstructured{}
	for _, resource := range listable() {
		list, err := cluster.Resource(resource).List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		objects[resource] = list.Items
	}
	for i := range objects[secretsOf] {
		t.hear(secretsOf, &objects[secretsOf][i])
	}
	delete(objects, secretsOf)
	out := t.inTexts()
	for resource, items := range objects {
		for i := range items {
			where := resource.GroupResource().String() + " " + items[i].GetNamespace() + "/" + items[i].GetName()
			for _, find := range t.secrets.InObject(writtenByOperator(resource, &items[i])) {
				out = append(out, where+": "+find)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// inTexts looks through the log and what was said.
func (t *outputs) inTexts() (out []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	number := 0
	for line := range strings.Lines(t.log.String()) {
		number++
		for _, name := range t.secrets.In(line) {
			out = append(out, fmt.Sprintf("line %d of the operator's log: %s", number, name))
		}
	}
	for text, where := range t.said {
		for _, name := range t.secrets.In(text) {
			out = append(out, "a status or an annotation of "+where+": "+name)
		}
	}
	return out
}

// writtenByOperator is what of an object the operator may have written; nil if it is all a user's or the fakes'. Events tell no writer.
func writtenByOperator(resource schema.GroupVersionResource, object *unstructured.Unstructured) any {
	others := func(m metav1.ManagedFieldsEntry) bool {
		return strings.HasPrefix(m.Manager, filepath.Base(os.Args[0])) || strings.HasPrefix(m.Manager, "fettle-test")
	}
	managers := object.GetManagedFields()
	if resource.Resource != "events" && !slices.ContainsFunc(managers, func(m metav1.ManagedFieldsEntry) bool { return !others(m) }) {
		return nil
	}
	content := object.DeepCopy()
	content.SetManagedFields(nil)
	if strings.HasSuffix(resource.Group, "fettle.dev") {
		delete(content.Object, "spec") // the user's
	}
	return content.Object
}

// expectNoLeaks finds no value of a Secret in logs, events and objects.
func expectNoLeaks(ctx context.Context) {
	GinkgoHelper()
	Expect(operatorOutput.found(ctx)).To(BeEmpty(), "values of Secrets in logs, events and objects")
	AddReportEntry("secrets", fmt.Sprintf("%d values of Secrets, %d bytes of log", operatorOutput.secrets.Len(), operatorOutput.log.Len()))
}

// TestOutputs plants a value in each place that is searched.
func TestOutputs(t *testing.T) {
	object := func(kind, key, manager string, content map[string]any) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: content}
		o.SetKind(kind)
		o.SetName(key)
		o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: manager}})
		return o
	}
	const value = "planted-value"
	apps := schema.GroupVersionResource{Group: "apps.fettle.dev", Resource: "webapps"}
	status := map[string]any{"status": map[string]any{"message": "it is " + value}, "spec": map[string]any{"image": value}}
	heard := &outputs{said: map[string]string{}}
	heard.hear(secretsOf, object("Secret", "s", "user", map[string]any{"data": map[string]any{"password": "cGxhbnRlZC12YWx1ZQ=="}}))
	heard.hear(apps, object("WebApp", "a", "webapp", status))
	fmt.Fprintln(heard, `{"msg":"started"}`)
	fmt.Fprintln(heard, `{"msg":"it is `+value+`"}`)
	const name = "key password of Secret /s"
	want := []string{"line 2 of the operator's log: " + name, "a status or an annotation of webapps /a: " + name}
	if got := heard.inTexts(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	self := filepath.Base(os.Args[0])
	for of, c := range map[string]struct {
		resource schema.GroupVersionResource
		manager  string
		want     []string
	}{
		"the operator's":    {corev1.SchemeGroupVersion.WithResource("configmaps"), "webapp", []string{name + ", at .spec.image", name + ", at .status.message"}},
		"a user's":          {corev1.SchemeGroupVersion.WithResource("configmaps"), self, nil},
		"an event":          {corev1.SchemeGroupVersion.WithResource("events"), self, []string{name + ", at .spec.image", name + ", at .status.message"}},
		"a user's, with us": {apps, "webapp", []string{name + ", at .status.message"}},
	} {
		if got := heard.secrets.InObject(writtenByOperator(c.resource, object("X", "x", c.manager, status))); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", of, got, c.want)
		}
	}
}
