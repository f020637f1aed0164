package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const operator = "system:serviceaccount:fettle-system:fettle-controller-manager"

// TestParse reads lines of a real log. Lines that must not be counted are missing from want.
func TestParse(t *testing.T) {
	data, err := os.ReadFile("testdata/audit.log")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for entry := range bytes.Lines(data) {
		r, counted, err := parse(entry)
		if err != nil {
			t.Fatal(err)
		}
		if counted {
			who := strings.TrimPrefix(r.User, "system:serviceaccount:fettle-system:")
			got = append(got, strings.Join(slices.DeleteFunc(
				[]string{who, string(r.Class), r.Verb, r.Resource, r.Subresource, r.Name, fmt.Sprint(r.Code)},
				func(s string) bool { return s == "" }), " "))
		}
	}
	me := "fettle-controller-manager "
	want := []string{
		me + "watch-list watch configmaps 200",
		me + "write create configmaps one 201",
		me + "write update configmaps one 200",
		me + "live read get configmaps one 200",
		me + "write create secrets 403",
		"admin write create secrets refused 201",
		"admin watch watch configmaps 200",
		me + "write patch deployments.apps web 200",
		me + "live read patch (dry run) deployments.apps web 200",
		me + "write patch webapps.apps.fettle.dev status web 200",
		me + "lease update leases.coordination.k8s.io fettle 200",
		me + "event create events.events.k8s.io web.1 200",
		me + "event create events web.2 200",
		me + "review create subjectaccessreviews.authorization.k8s.io 200",
		me + "watch-list list services 200",
		me + "live read list services 200",
		me + "discovery get 200",
		me + "write delete services web 200",
		me + "write update services web 200",
		me + "watch watch secrets 403",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestSummary(t *testing.T) {
	var s Summary
	position, err := end("testdata/audit.log")
	if err != nil {
		t.Fatal(err)
	}
	filter := Filter{User: operator, Namespace: "shop"}
	_, err = scan("testdata/audit.log", Position{inode: position.inode}, func(data []byte) error {
		request, counted, err := parse(data)
		if counted && filter.matches(request) {
			s.add(request)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.Writes() != 7 || s.LiveReads() != 3 || s.Of(WatchList) != 2 || s.Of(Event) != 2 || s.Of(Lease, Review, Discovery) != 0 {
		t.Errorf("writes %d, live reads %d, watch-lists %d, events %d:\n%s", s.Writes(), s.LiveReads(), s.Of(WatchList), s.Of(Event), s)
	}
}

func TestSummaryTable(t *testing.T) {
	var s Summary
	for _, name := range []string{"b", "a", "d", "c", "a"} {
		s.add(Request{User: "op", Class: Write, Verb: "patch", Resource: "webapps.apps.fettle.dev", Subresource: "status", Name: name, Code: 200})
	}
	s.add(Request{User: "op", Class: LiveRead, Verb: "get", Resource: "secrets", Name: "a", Code: 403})
	s.add(Request{User: "other", Class: Write, Verb: "delete", Resource: "secrets", Name: "a", Code: 200})
	want := "USER  CLASS      VERB   RESOURCE                        REQUESTS  REJECTED  OBJECTS\n" +
		"op    live read  get    secrets                         1         1         a\n" +
		"op    write      patch  webapps.apps.fettle.dev/status  5         0         a b c and 1 more\n"
	mine := s.Where(func(k Key) bool { return k.User == "op" })
	if diff := cmp.Diff(want, mine.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

// TestScan_followsRotation rotates the log twice between the mark and the read, as the API server does.
func TestScan_followsRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	write(t, path, "before\nmarked\n")
	from, err := end(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, "1\n")
	rotate(t, path, "audit-2026-11-20T10-00-00.000.log")
	write(t, path, "2\n")
	rotate(t, path, "audit-2026-11-20T10-00-01.000.log")
	write(t, path, "3\nhalf a li")

	var got []string
	collect := func(data []byte) error { got = append(got, string(data)); return nil }
	at, err := scan(path, from, collect)
	if err != nil || !slices.Equal(got, []string{"1", "2", "3"}) {
		t.Fatalf("lines %q, %v", got, err)
	}
	write(t, path, "ne\n")
	if _, err = scan(path, at, collect); err != nil || !slices.Equal(got, []string{"1", "2", "3", "half a line"}) {
		t.Fatalf("lines after the last one was completed: %q, %v", got, err)
	}
	stopped, err := scan(path, from, func([]byte) error { return errStop })
	if err != nil || stopped == at {
		t.Errorf("a stopped scan returned the end: %+v, %v", stopped, err)
	}
	wrong := errors.New("wrong")
	if _, err := scan(path, from, func([]byte) error { return wrong }); !errors.Is(err, wrong) {
		t.Errorf("want the visitor's error, got %v", err)
	}
}

func TestScan_reportsLostMark(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	write(t, path, "1\n")
	from := Position{inode: 1} // no file contains it
	if _, err := scan(path, from, func([]byte) error { return nil }); err == nil || !strings.Contains(err.Error(), "rotation") {
		t.Errorf("want an error about rotation, got %v", err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func rotate(t *testing.T, path, to string) {
	t.Helper()
	if err := os.Rename(path, filepath.Join(filepath.Dir(path), to)); err != nil {
		t.Fatal(err)
	}
}

func TestRights(t *testing.T) {
	rights := Rights{Used: map[Right]int{}, Refused: map[Right]int{}}
	for _, r := range []Request{
		{Verb: "patch", Resource: "pods", Code: 200}, {Verb: "patch (dry run)", Resource: "pods", Code: 422},
		{Verb: "patch", Resource: "services", Code: 201}, {Verb: "patch", Resource: "webapps.apps.fettle.dev", Subresource: "status", Code: 403},
		{Verb: "get", Resource: "nodes", Code: 403, Forbidden: true},
	} {
		rights.add(r)
	}
	status := Right{"patch", "webapps.apps.fettle.dev", "status"}
	want := Rights{
		Used:    map[Right]int{{"patch", "pods", ""}: 2, {"patch", "services", ""}: 1, {"create", "services", ""}: 1, status: 1},
		Refused: map[Right]int{{"get", "nodes", ""}: 1},
	}
	if diff := cmp.Diff(want, rights); diff != "" {
		t.Error(diff)
	}
	if text := status.String(); text != "patch webapps.apps.fettle.dev/status" {
		t.Error(text)
	}
}
