package postgres

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

// change patches the spec.
func (c *cluster) change(change func(*databasev1alpha1.PostgreSQLSpec)) (generation int64) {
	c.t.Helper()
	pg := &databasev1alpha1.PostgreSQL{}
	if err := c.client.Get(c.t.Context(), client.ObjectKey{Namespace: c.namespace, Name: name}, pg); err != nil {
		c.t.Fatal(err)
	}
	before := pg.DeepCopy()
	change(&pg.Spec)
	if err := c.client.Patch(c.t.Context(), pg, client.MergeFrom(before)); err != nil {
		c.t.Fatal(err)
	}
	return pg.Generation
}

// hasEvent returns whether an event with that reason contains all words.
func (c *cluster) hasEvent(reason string, words ...string) bool {
	c.t.Helper()
	events := &corev1.EventList{}
	if err := c.client.List(c.t.Context(), events, client.InNamespace(c.namespace)); err != nil {
		c.t.Fatal(err)
	}
	for _, event := range events.Items {
		if event.Reason == reason && containsAll(event.Message, words...) {
			return true
		}
	}
	return false
}

func containsAll(text string, words ...string) bool {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// openConn opens a connection to an instance until the test ends.
func (i *instance) openConn(t testing.TB) *pgx.Conn {
	t.Helper()
	var conn *pgx.Conn
	i.cluster.eventually("a connection to "+i.pod, timeout, func() (ok bool) {
		var err error
		conn, err = i.cluster.connect(t.Context(), i.address(0))
		return err == nil
	})
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	return conn
}

// queryOnce returns one value from an instance. It is "" if the instance does not respond.
func (i *instance) queryOnce(query string) string {
	conn, err := i.cluster.connect(i.cluster.t.Context(), i.address(0))
	if err != nil {
		return ""
	}
	defer conn.Close(i.cluster.t.Context())
	var value string
	if conn.QueryRow(i.cluster.t.Context(), query).Scan(&value) != nil {
		return ""
	}
	return value
}

// queryUntil repeats queryOnce until there is a value.
func (i *instance) queryUntil(query string) (value string) {
	i.cluster.t.Helper()
	i.cluster.eventually(i.pod+" to answer to "+query, timeout, func() bool { value = i.queryOnce(query); return value != "" })
	return value
}

// exec runs a statement on an instance.
func (i *instance) exec(t testing.TB, statement string) {
	t.Helper()
	if _, err := i.openConn(t).Exec(t.Context(), statement); err != nil {
		t.Fatalf("%s: %s: %s", i.pod, statement, err)
	}
}

// statusIs returns whether an agent's status matches.
func (i *instance) statusIs(is func(agentapi.Status) bool) func() bool {
	return func() bool {
		status, ok := i.status()
		return ok && is(status)
	}
}

// logSince is the log of an instance from an offset.
func (i *instance) logSince(bytes int) string { return i.log.text()[bytes:] }
