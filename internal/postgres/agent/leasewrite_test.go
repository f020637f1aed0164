package agent

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fettle-dev/fettle/internal/postgres/election"
)

// TestLease_record writes what a holder leaves to others, and reads it again.
func TestLease_record(t *testing.T) {
	at := metav1.NewMicroTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	held := election.Lease{
		Holder: election.Holder{Name: "db-0", UID: "u"}, SystemID: "7", Timeline: 3, Primary: "db-0",
		End: election.Position{Timeline: 3, LSN: 1 << 40}, History: []election.TimelineSwitch{{Timeline: 2, LSN: 5}},
		Sync: []election.Quorum{{Number: 1, Names: []string{"db-1", "db-2"}}}, Instances: []string{"db-0", "db-1", "db-2"},
	}
	released := held
	released.Holder, released.Released, released.Preferred = election.Holder{}, true, "db-1"
	object := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Name: "db", ResourceVersion: "9", Annotations: map[string]string{AnnotationFresh: "true", "other": "kept"},
	}}
	for i, want := range []election.Lease{held, held, released, held} {
		if err := fill(object, want, 9500*time.Millisecond, at); err != nil {
			t.Fatal(err)
		}
		got, err := recordOf(object)
		if err != nil {
			t.Fatal(err)
		}
		want.Version = "9"
		if diff := cmp.Diff(want, got.Lease); diff != "" || !got.Fresh || object.Annotations["other"] != "kept" {
			t.Errorf("write %d (-want +got): fresh %v, %v\n%s", i, got.Fresh, object.Annotations, diff)
		}
	}
	if n := *object.Spec.LeaseTransitions; n != 2 {
		t.Errorf("%d holders were counted, want 2: a renewal is no change of holder", n)
	}
	if n := *object.Spec.LeaseDurationSeconds; n != 10 {
		t.Errorf("valid for %d s, want 10", n)
	}
}

func TestLease_emptyHasNoHolder(t *testing.T) {
	got, err := recordOf(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("")}})
	if diff := cmp.Diff(election.Lease{Version: "1"}, got.Lease); diff != "" || err != nil || got.Fresh {
		t.Errorf("%v, fresh %v\n%s", err, got.Fresh, diff)
	}
	damaged := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnotationRecord: "{"}}}
	if _, err := recordOf(damaged); err == nil {
		t.Error("a damaged record was taken for an empty one")
	}
}

// TestLease_writeOutcome tells what was certainly not written from what may have been.
func TestLease_writeOutcome(t *testing.T) {
	for _, c := range []struct {
		name string
		code int
		want error
	}{
		{"written", http.StatusOK, nil},
		{"somebody else wrote", http.StatusConflict, errRejected},
		{"it is gone", http.StatusNotFound, errRejected},
		{"not allowed", http.StatusForbidden, errRejected},
		{"too many requests", http.StatusTooManyRequests, errIndeterminate},
		{"etcd did not answer", http.StatusInternalServerError, errIndeterminate},
		{"the API server ends", http.StatusServiceUnavailable, errIndeterminate},
		{"the connection broke", 0, errIndeterminate},
	} {
		var requests atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			if c.code == 0 {
				panic(http.ErrAbortHandler)
			}
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(c.code)
			if c.code == http.StatusOK {
				object := &coordinationv1.Lease{}
				_ = json.NewDecoder(r.Body).Decode(object)
				object.ResourceVersion = "2"
				_ = json.NewEncoder(w).Encode(object)
				return
			}
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: int32(c.code)})
		}))
		k, err := newKube(&rest.Config{Host: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		client := &leaseClient{api: k.lease, watched: k.leaseWatch, namespace: "shop", name: "db"}
		read := &leaseRecord{object: &coordinationv1.Lease{
			TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}, ObjectMeta: metav1.ObjectMeta{Name: "db", ResourceVersion: "1"},
		}}
		got, err := client.Write(t.Context(), read, election.Lease{Holder: election.Holder{Name: "db-0", UID: "u"}}, time.Second)
		if c.want == nil && (err != nil || got.Version != "2") || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if sent := requests.Load(); sent != 1 {
			t.Errorf("%s: %d requests; a write is sent once, since its time counts from when it was sent", c.name, sent)
		}
		server.Close()
	}
}
