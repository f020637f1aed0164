package agent

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fettle-dev/fettle/internal/postgres/election"
)

// TestLease_rejectedWriteIsFollowedByRead sees that an instance that lost a race for the Lease reads it before it tries again: a
// write would end the read and be refused as well, and the instance would not learn who has won.
func TestLease_rejectedWriteIsFollowedByRead(t *testing.T) {
	now := "2" // somebody else wrote
	writes, reading := 0, make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPut {
			writes++
			w.WriteHeader(http.StatusConflict)
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: http.StatusConflict})
			return
		}
		<-reading
		_ = json.NewEncoder(w).Encode(coordinationv1.Lease{
			TypeMeta:   metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
			ObjectMeta: metav1.ObjectMeta{Name: "db", ResourceVersion: now}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("db-1/u")},
		})
	}))
	defer server.Close()
	k, err := newKube(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	a := &Agent{
		inbox: make(chan func(), 8), ctx: t.Context(), log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		lease: &leaseClient{api: k.lease, watched: k.leaseWatch, namespace: "shop", name: "db"},
	}
	read := election.Lease{Version: "1", Released: true}
	a.recordLease(&leaseRecord{Lease: read, object: &coordinationv1.Lease{
		TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}, ObjectMeta: metav1.ObjectMeta{Name: "db", ResourceVersion: "1"},
	}}, nil, 1)
	claim := read
	claim.Holder, claim.Released = election.Holder{Name: "db-0", UID: "v"}, false

	a.writeLease(claim, 2)
	(<-a.inbox)()
	a.writeLease(claim, 3) // the Lease still looks free
	close(reading)
	(<-a.inbox)()
	if holder := a.observation.Lease.Holder.Name; holder != "db-1" {
		t.Errorf("after the read the holder is %q, want db-1", holder)
	}
	if writes != 1 {
		t.Errorf("%d writes, want 1", writes)
	}
	if a.record == nil || a.record.Version != now {
		t.Errorf("the next write would not be of the Lease as it is: %+v", a.record)
	}
}

// TestLease_writtenAsDecided sees that a change of the object beside a write does not reach into it: what is written is
// what was decided upon.
func TestLease_writtenAsDecided(t *testing.T) {
	seconds := make(chan int32, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lease := coordinationv1.Lease{}
		if err := json.NewDecoder(r.Body).Decode(&lease); err != nil || lease.Spec.LeaseDurationSeconds == nil {
			t.Errorf("the body is no Lease that is held: %v", err)
			lease.Spec.LeaseDurationSeconds = new(int32)
		}
		seconds <- *lease.Spec.LeaseDurationSeconds
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(lease)
	}))
	defer server.Close()
	k, err := newKube(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	a := &Agent{
		inbox: make(chan func(), 8), ctx: t.Context(), log: slog.New(slog.DiscardHandler),
		lease: &leaseClient{api: k.lease, watched: k.leaseWatch, namespace: "shop", name: "db"},
	}
	a.record = &leaseRecord{Lease: election.Lease{Version: "1"}, object: &coordinationv1.Lease{
		TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}, ObjectMeta: metav1.ObjectMeta{Name: "db", ResourceVersion: "1"},
	}}
	a.config.LeaseDuration = 7 * time.Second
	a.writeLease(election.Lease{Version: "1", Holder: election.Holder{Name: "db-0", UID: "v"}}, 2)
	a.config = election.Config{} // as configure does
	(<-a.inbox)()
	if got := <-seconds; got != 7 {
		t.Errorf("the Lease is written to last for %d s, want 7", got)
	}
}
