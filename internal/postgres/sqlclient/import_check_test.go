package sqlclient_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/sqlclient"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

// TestCheckImported: problems of a copy are found before it is promoted.
func TestCheckImported(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	f := testpg.NewExternal(t, testpg.NewCA(t), "max_logical_replication_workers = 0\n")
	f.SQL(t, "postgres", "CREATE ROLE app LOGIN")
	for _, c := range []struct {
		statements []string
		user, want string
	}{
		{nil, "postgres", ""},
		{nil, "nobody", "as superuser postgres to database postgres"},
		{nil, "app", "not a superuser"},
		{[]string{"CREATE SUBSCRIPTION feed CONNECTION 'host=/nonexistent' PUBLICATION p WITH (connect = false)"}, "postgres", ""},
		{[]string{"ALTER SUBSCRIPTION feed ENABLE"}, "postgres", "(feed)"},
		{[]string{"ALTER SUBSCRIPTION feed DISABLE"}, "postgres", ""},
	} {
		f.SQL(t, "postgres", c.statements...)
		client := sqlclient.New(sqlclient.Options{SocketDir: f.SocketDir(), Port: f.Port, User: c.user})
		unfit, err := client.CheckImported(ctx)
		client.Close(ctx)
		if err != nil || c.want == "" && unfit != "" || !strings.Contains(unfit, c.want) {
			t.Errorf("%v as %s: %q, %v, want %q", c.statements, c.user, unfit, err, c.want)
		}
	}
	gone := sqlclient.New(sqlclient.Options{SocketDir: testpg.Dir(t), Port: f.Port})
	if unfit, err := gone.CheckImported(ctx); err == nil || unfit != "" {
		t.Errorf("of a server that is not there: %q, %v", unfit, err)
	}
}
