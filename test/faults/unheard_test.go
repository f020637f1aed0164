package faults

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestUnheardTransport answers the first of three equal writes to an existing object, in its step.
func TestUnheardTransport(t *testing.T) {
	for name, tc := range map[string]struct {
		plan     Plan
		versions []string // before each of the writes
		want     []string
	}{
		"the first":                     {Plan{Call: "apply configmaps/a"}, []string{"6", "6", "7"}, []string{"500", "200", "200"}},
		"not the write that creates it": {Plan{Call: "apply configmaps/a"}, []string{"", "6", "7"}, []string{"200", "500", "200"}},
		"another write":                 {Plan{Call: "apply configmaps/b"}, []string{"6", "6", "7"}, []string{"200", "200", "200"}},
		"another step":                  {Plan{Call: "apply configmaps/a", Step: 1}, []string{"6", "6", "7"}, []string{"200", "200", "200"}},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"metadata":{"name":"a","resourceVersion":"7"}}`) // the client is this test
		}))
		tc.plan.Kind = Unheard
		tc.plan.Answer = answers[slices.IndexFunc(answers, func(a answer) bool { return a.name == "internal" })]
		versions := tc.versions
		requests := &requestLog{plan: tc.plan, version: func(Key) string {
			v := versions[0]
			versions = versions[1:]
			return v
		}}
		transport := &operatorProcess{requests: requests, number: 1, next: http.DefaultTransport}
		var got []string
		for range tc.versions {
			got = append(got, send(t, transport, server.URL))
		}
		server.Close()
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestUnheardPlans requires every possible answer for each distinct write of a step to an existing object.
func TestUnheardPlans(t *testing.T) {
	maps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	made := Record{Verb: "apply", Resource: maps, Name: "a"}
	changed := made
	changed.Before = "6"
	later := changed
	later.Step = 1
	deleted := later
	deleted.Verb = "delete"
	status := Record{Verb: "patch", Resource: demos, Name: "x", Sub: "status", Before: "6", Step: 1}
	var got []string
	for _, p := range fullRun.unheard([]Record{made, changed, changed, later, deleted, status}) {
		got = append(got, p.ID())
	}
	slices.Sort(got)
	want := []string{
		"F4-unheard-conflict@0:apply configmaps/a", "F4-unheard-conflict@1:apply configmaps/a", "F4-unheard-conflict@1:delete configmaps/a",
		"F4-unheard-conflict@1:patch demos/x/status", "F4-unheard-notfound@0:apply configmaps/a", "F4-unheard-notfound@1:apply configmaps/a",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestAnswers_arePossible makes the plan's answer impossible for the n-th write. The next possible write gets the answer.
func TestAnswers_arePossible(t *testing.T) {
	notFound := answers[slices.IndexFunc(answers, func(a answer) bool { return a.name == "notfound" })]
	requests := &requestLog{plan: Plan{Kind: Reply, Write: 2, Answer: notFound}}
	var got []bool
	for k, verb := range []string{"apply", "patch", "apply"} {
		got = append(got, requests.isTarget(Record{Verb: verb, K: k + 1}))
	}
	if diff := cmp.Diff([]bool{false, false, true}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
