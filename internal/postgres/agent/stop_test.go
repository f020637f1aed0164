package agent

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-dev/fettle/internal/postgres/election"
	"github.com/fettle-dev/fettle/internal/postgres/server"
	"github.com/fettle-dev/fettle/internal/postgres/sqlclient"
)

// A stop waits for the successors alone: who is behind is ended first, whoever it is.
func TestSendersOf(t *testing.T) {
	status := sqlclient.Status{Written: 100 << 20, Senders: []sqlclient.Sender{
		{PID: 1, Name: "db-1", State: "streaming", Flushed: 100 << 20},
		{PID: 2, Name: "db-2", State: "streaming", Flushed: 100<<20 - 1},
		{PID: 3, Name: "db-3", State: "streaming", Flushed: 84 << 20},
		{PID: 4, Name: "db-4", State: "catchup", Flushed: 100 << 20},
		{PID: 5, Name: "pg_basebackup", State: "backup"},
		{PID: 6, Name: "archive", State: "streaming", Flushed: 100 << 20},
	}}
	want := server.WALSenders{Awaited: []int{1}, Lagging: []int{3, 4, 5}, Others: []int{2, 6}}
	if diff := cmp.Diff(want, sendersOf(status, []string{"db-1"})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A fast stop may take what the pod's grace period leaves after an immediate one, SIGKILL and the release of the Lease.
func TestStopTime(t *testing.T) {
	for _, c := range []struct{ grace, want time.Duration }{
		{time.Minute, 52 * time.Second}, {time.Hour, time.Hour - 8*time.Second}, {10 * time.Second, 5 * time.Second},
	} {
		if got := stopTime(election.DefaultTiming(), c.grace); got != c.want {
			t.Errorf("of %s: %s, want %s", c.grace, got, c.want)
		}
	}
}
