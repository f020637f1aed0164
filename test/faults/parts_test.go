package faults

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// TestTransport applies each fault to the second of three writes, against a server that counts its requests.
func TestTransport(t *testing.T) {
	internal := answers[slices.IndexFunc(answers, func(a answer) bool { return a.name == "internal" })]
	type result struct {
		sent    int
		replies []string
	}
	cases := map[Kind]result{
		None:         {3, []string{"200", "200", "200"}},
		CrashBefore:  {1, []string{"200", "crashed", "crashed"}},
		CrashAfter:   {2, []string{"200", "crashed", "crashed"}},
		LostResponse: {3, []string{"200", "reset", "200"}},
		LostAndStale: {3, []string{"200", "reset", "200"}},
		Stale:        {3, []string{"200", "200", "200"}},
		Reply:        {2, []string{"200", "500", "200"}},
		HeldReply:    {1, []string{"200", "500", "500"}},
	}
	for kind, want := range cases {
		t.Run("fault "+string(kind), func(t *testing.T) {
			var got result
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				got.sent++
				_, _ = io.WriteString(w, `{"metadata":{"name":"a","resourceVersion":"7"}}`) // the client is this test
			}))
			defer server.Close()
			configMap := Key{corev1.SchemeGroupVersion.WithResource("configmaps"), "a"}
			requests := &requestLog{plan: Plan{Kind: kind, Write: 2, Object: configMap, Answer: internal}, version: func(Key) string { return "6" }}
			died := 0
			transport := &operatorProcess{requests: requests, number: 1, next: http.DefaultTransport, stop: func() { died++ }}
			for range 3 {
				got.replies = append(got.replies, send(t, transport, server.URL))
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(result{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if crashes := kind == CrashBefore || kind == CrashAfter; crashes != (died == 1) {
				t.Errorf("the manager was stopped %d times", died)
			}
			first := requests.written()[0]
			if first.String() != "apply configmaps/a" || first.K != 1 || first.RV != "7" || first.Before != "6" || first.Code != 200 {
				t.Errorf("the first write was recorded as %+v", first)
			}
		})
	}
}

func send(t *testing.T, transport http.RoundTripper, url string) string {
	t.Helper()
	request, err := http.NewRequest(http.MethodPatch, url+"/api/v1/namespaces/n/configmaps/a?force=true", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/apply-patch+yaml")
	response, err := transport.RoundTrip(request)
	switch {
	case errors.Is(err, ErrCrashed):
		return "crashed"
	case errors.Is(err, syscall.ECONNRESET):
		return "reset"
	case err != nil:
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return response.Status[:3]
}

func TestDescribe(t *testing.T) {
	cases := []struct {
		method, path, body, want string
		write                    bool
	}{
		{"POST", "/api/v1/namespaces/n/configmaps", `{"metadata":{"name":"a"}}`, "create configmaps/a", true},
		{"PUT", "/apis/test.fettle.dev/v1/namespaces/n/demos/a/status", "{}", "update demos/a/status", true},
		{"DELETE", "/apis/apps/v1/namespaces/n/deployments/a", "", "delete deployments/a", true},
		{"PATCH", "/apis/apps/v1/namespaces/n/deployments/a?dryRun=All", "{}", "patch deployments/a", false},
		{"GET", "/apis/apps/v1/namespaces/n/deployments/a", "", "get deployments/a", false},
		{"GET", "/apis/apps/v1/namespaces/n/deployments?watch=true", "", "watch deployments/", false},
		{"POST", "/apis/events.k8s.io/v1/namespaces/n/events", `{"metadata":{"name":"a"}}`, "create events/", false},
		{"PUT", "/apis/coordination.k8s.io/v1/namespaces/n/leases/a", "{}", "update leases/a", false},
		{"POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", "{}", "create subjectaccessreviews/", false},
	}
	for _, c := range cases {
		request := httptest.NewRequestWithContext(context.Background(), c.method, c.path, strings.NewReader(c.body))
		record, err := describe(request)
		if err != nil || record.String() != c.want || record.Write != c.write {
			t.Errorf("%s %s: %q, write %v, %v", c.method, c.path, record, record.Write, err)
		}
		if body, err := io.ReadAll(request.Body); err != nil || string(body) != c.body {
			t.Errorf("%s %s: the body was changed to %q, %v", c.method, c.path, body, err)
		}
	}
}

// TestMasks limits the list of masks.
func TestMasks(t *testing.T) {
	if len(masks) > 15 {
		t.Errorf("%d masks, at most 15", len(masks))
	}
	allowed := []string{"spec.clusterIP", "spec.clusterIPs", "spec.ports.[].nodePort"}
	for _, m := range masks {
		path := strings.Join(m.path, ".")
		if m.path[0] != "metadata" && m.path[0] != "status" && !slices.Contains(allowed, path) {
			t.Errorf("%s is decided by the controller and must be compared", path)
		}
	}
	if got := splitPath("metadata.annotations[fettle.dev/applied-hash]"); !slices.Equal(got, []string{"metadata", "annotations", "fettle.dev/applied-hash"}) {
		t.Errorf("split into %q", got)
	}
}

func TestDump_sameForEveryRun(t *testing.T) {
	state := func(namespace, uid, time, clusterIP string) View {
		text := `
metadata: {name: a, namespace: ` + namespace + `, uid: ` + uid + `, resourceVersion: "` + uid + `", labels: {a: b}}
spec: {clusterIP: ` + clusterIP + `, host: a.` + namespace + `.svc, ports: [{port: 80, nodePort: 30001}]}
status:
  conditions: [{type: Ready, lastTransitionTime: ` + time + `, message: owned by ` + uid + `}, {type: Available}]`
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			t.Fatal(err)
		}
		return View{objects: map[Key]*unstructured.Unstructured{{corev1.SchemeGroupVersion.WithResource("services"), "a"}: object}}
	}
	one := dump(state("n-1", "uid-11", "today", "10.0.0.1"), "n-1", None)
	two := dump(state("n-2", "uid-22", "now", "10.0.0.2"), "n-2", None)
	if diff := difference(one, two); diff != "" {
		t.Errorf("two runs differ:\n%s", diff)
	}
	want := "metadata:\n  labels:\n    a: b\n  name: a\n  namespace: NAMESPACE\n" +
		"spec:\n  host: a.NAMESPACE.svc\n  ports:\n  - port: 80\n" +
		"status:\n  conditions:\n  - type: Available\n  - message: owned by UID(services/a)\n    type: Ready\n"
	if diff := cmp.Diff(want, one["services/a"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDump_comparesPresenceOfTimes(t *testing.T) {
	state := func(annotation string) View {
		object := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"uid": "uid-1", "annotations": map[string]any{"at": annotation}}}}
		return View{objects: map[Key]*unstructured.Unstructured{{corev1.SchemeGroupVersion.WithResource("configmaps"), "a"}: object}}
	}
	one := dump(state(`{"hash":"1","at":"2026-11-20T17:00:00Z"}`), "n-1", None)
	for annotation, equal := range map[string]bool{
		`{"hash":"1","at":"2027-01-02T03:04:05.678Z"}`: true, `{"hash":"2","at":"2026-11-20T17:00:00Z"}`: false, `{"hash":"1"}`: false,
	} {
		if diff := difference(one, dump(state(annotation), "n-2", None)); (diff == "") != equal {
			t.Errorf("%s: equal %v:\n%s", annotation, diff == "", diff)
		}
	}
}

func TestManagedLeaves(t *testing.T) {
	object := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"a/b": "1", "c": "2"}},
		"spec": map[string]any{"paused": false, "containers": []any{
			map[string]any{"name": "x", "image": "i"}, map[string]any{"name": "y", "image": "j", "args": []any{"z"}},
		}},
	}}
	object.SetManagedFields([]metav1.ManagedFieldsEntry{
		{Manager: "operator", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:a/b":{}}},"f:spec":{"f:paused":{},` +
			`"f:containers":{"k:{\"name\":\"y\"}":{".":{},"f:name":{},"f:image":{}},"k:{\"name\":\"gone\"}":{"f:image":{}}}}}`)},
		{Manager: agentUser, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:c":{}}}}`)},
		{Manager: "operator", Subresource: "status", FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:x":{}}}`)},
	})
	got, err := managedLeaves(object)
	want := []leaf{{"/metadata/labels/a~1b", false}, {"/spec/containers/1/image", false}, {"/spec/containers/1/name", true}, {"/spec/paused", false}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(leaf{})); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, l := range got {
		value, ok := resolve(object.Object, l.pointer)
		if !ok || len(candidates(l.pointer, value)) == 0 {
			t.Errorf("%s: value %v, no other value", l.pointer, value)
		}
	}
	left := drift{pointer: "/spec/containers/0/name", value: "y", key: true}.withoutForeign(object)
	containers, _, _ := unstructured.NestedSlice(left.Object, "spec", "containers")
	if len(containers) != 1 || containers[0].(map[string]any)["name"] != "x" {
		t.Errorf("without the foreign element: %v", containers)
	}
	before, _, _ := unstructured.NestedSlice(object.Object, "spec", "containers")
	if len(before) != 2 {
		t.Errorf("the object itself was changed: %v", before)
	}
}

// TestPlans_coverAllAnswers requires that the short selection uses each F4 answer, and that IDs are unique.
func TestPlans_coverAllAnswers(t *testing.T) {
	maps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	trace := []Record{{Verb: "apply", Resource: maps, Name: "a"}, {Verb: "apply", Resource: maps, Name: "b"},
		{Verb: "apply", Resource: maps, Name: "c"}, {Verb: "patch", Resource: demos, Sub: "status"}}
	child := Key{maps, "a"}
	for name, s := range map[string]selection{"short": shortRun, "full": fullRun} {
		plans := s.plans(trace, []Key{child}, map[Key][]drift{child: {{pointer: "/data/a", value: "1"}, {pointer: "/data/b", value: "2"}}})
		once, held, ids := map[string]bool{}, map[string]bool{}, map[string]bool{}
		for _, p := range plans {
			once[p.Answer.name] = once[p.Answer.name] || p.Kind == Reply
			held[p.Answer.name] = held[p.Answer.name] || p.Kind == HeldReply
			if ids[p.ID()] {
				t.Errorf("%s: two plans %s", name, p.ID())
			}
			ids[p.ID()] = true
		}
		for _, a := range answers {
			if !once[a.name] || held[a.name] != a.holdable {
				t.Errorf("%s: answer %s: used once %v, held %v", name, a.name, once[a.name], held[a.name])
			}
		}
	}
	if got := spread([]int{0, 1, 2, 3, 4, 5}, 3); !slices.Equal(got, []int{0, 2, 4}) {
		t.Errorf("spread: %v", got)
	}
}

// TestWorkersRunning checks that a controller receives events again only after the workers of its next process have started.
func TestWorkersRunning(t *testing.T) {
	requests := &requestLog{}
	l := &operator{requests: requests}
	starts := func(number int, kind string) {
		l.logger(number, "Pod").Info("Starting workers", "controller", "x", "controllerKind", kind)
	}
	if starts(1, "Node"); requests.workersRunning() == nil {
		t.Error("another controller runs")
	}
	if starts(1, "Pod"); requests.workersRunning() != nil {
		t.Error("the first process runs")
	}
	(&operatorProcess{requests: requests, number: 1, stop: func() {}}).crash()
	if requests.workersRunning() == nil {
		t.Error("the first process has crashed")
	}
	if starts(2, "Pod"); requests.workersRunning() != nil {
		t.Error("the second process runs")
	}
}
