package agent

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fettle-dev/fettle/internal/postgres/election"
)

// Who reads the Lease sees what was written; a holder that the operator took out as that of a released Lease; and a Lease
// that was re-created as one that nobody released.
func TestRecordOf(t *testing.T) {
	held := election.Lease{
		Holder: election.Holder{Name: "pg-0", UID: "a"}, SystemID: "s", Timeline: 3, Primary: "pg-0",
		End: election.Position{Timeline: 3, LSN: 1000}, History: []election.TimelineSwitch{{Timeline: 2, LSN: 500}},
		Sync: []election.Quorum{{Number: 1, Names: []string{"pg-1"}}}, Instances: []string{"pg-0", "pg-1"},
	}
	released := held
	released.Holder, released.Released, released.CleanShutdown = election.Holder{}, true, true
	takenOut := held
	takenOut.Holder, takenOut.Released = election.Holder{}, true
	remade := held
	remade.Recreated = true
	late := remade
	late.Holder = election.Holder{}
	for _, tc := range []struct {
		name   string
		write  *election.Lease
		change func(*coordinationv1.Lease)
		want   election.Lease
	}{
		{name: "held", write: &held, want: held},
		{name: "released", write: &released, want: released},
		{name: "taken out by the operator", write: &held, change: func(o *coordinationv1.Lease) { o.Spec.HolderIdentity = nil }, want: takenOut},
		{name: "re-created"},
		{name: "re-created by its holder", write: &remade, want: remade},
		{
			name: "re-created, maybe late, and taken out by the operator", write: &remade,
			change: func(o *coordinationv1.Lease) { o.Spec.HolderIdentity = nil }, want: late,
		},
	} {
		object := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "pg"}}
		if tc.write != nil {
			if err := fill(object, *tc.write, 10*time.Second, metav1.NowMicro()); err != nil {
				t.Fatal(err)
			}
		}
		if tc.change != nil {
			tc.change(object)
		}
		got, err := recordOf(object)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, got.Lease); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
}

// leaseAPI is an API server with one Lease, or none.
type leaseAPI struct {
	stored, put *coordinationv1.Lease
	there       bool
	details     *metav1.StatusDetails
}

func (a *leaseAPI) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case q.Method == http.MethodPut:
		a.put = &coordinationv1.Lease{}
		_ = json.NewDecoder(q.Body).Decode(a.put)
		answer := a.put.DeepCopy()
		answer.ResourceVersion = "9"
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(answer)
	case a.there:
		_ = json.NewEncoder(w).Encode(a.stored)
	default:
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: http.StatusNotFound,
			Reason: metav1.StatusReasonNotFound, Details: a.details,
		})
	}
}

// newLeaseAPI has a Lease that was deleted, and a client.
func newLeaseAPI(t *testing.T, held election.Lease) (*leaseAPI, *leaseClient) {
	t.Helper()
	api := &leaseAPI{details: &metav1.StatusDetails{Name: "db", Kind: "leases"}, stored: &coordinationv1.Lease{
		TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "db", Namespace: "shop", UID: "old", ResourceVersion: "5", Labels: map[string]string{"a": "b"},
			Annotations:     map[string]string{AnnotationFresh: "true"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "PostgreSQL", Name: "db", UID: "o", Controller: new(true), BlockOwnerDeletion: new(true)}},
		},
	}}
	if err := fill(api.stored, held, 10*time.Second, metav1.NowMicro()); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	k, err := newKube(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return api, &leaseClient{api: k.lease, watched: k.leaseWatch, namespace: "shop", name: "db"}
}

// TestLease_recreatedAfterDelete tells a Lease that is gone from one that was never there, and from an API server that knows of none.
func TestLease_recreatedAfterDelete(t *testing.T) {
	api, client := newLeaseAPI(t, election.Lease{SystemID: "7"})
	for _, step := range []struct {
		name    string
		there   bool
		details *metav1.StatusDetails
		version string
		err     error
	}{
		{"never there", false, api.details, "", errRejected},
		{"there", true, nil, "5", nil},
		{"no Leases at all", false, nil, "", errRejected},
		{"gone", false, api.details, "", nil},
	} {
		api.there, api.details = step.there, step.details
		got, err := client.Read(t.Context())
		if !errors.Is(err, step.err) || err == nil && got.Version != step.version {
			t.Errorf("%s: %+v, %v", step.name, got, err)
		}
	}
}

// TestLease_recreation as it was, of the same owner, but not as that of a new cluster.
func TestLease_recreation(t *testing.T) {
	again := election.Lease{Holder: election.Holder{Name: "db-0", UID: "u"}, SystemID: "7", Timeline: 3, Primary: "db-0", Recreated: true}
	api, client := newLeaseAPI(t, again)
	api.there = true
	if _, err := client.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	api.there = false
	gone, err := client.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	written, err := client.Write(t.Context(), gone, again, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	wanted := again
	wanted.Version = "9"
	if diff := cmp.Diff(wanted, written.Lease); diff != "" {
		t.Error(diff)
	}
	want := metav1.ObjectMeta{
		Name: "db", Namespace: "shop", Labels: api.stored.Labels, Annotations: map[string]string{AnnotationRecord: api.put.Annotations[AnnotationRecord]},
		OwnerReferences: []metav1.OwnerReference{{Kind: "PostgreSQL", Name: "db", UID: "o", Controller: new(true)}},
	}
	if diff := cmp.Diff(want, api.put.ObjectMeta); diff != "" {
		t.Error(diff)
	}
}
