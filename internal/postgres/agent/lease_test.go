package agent

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-dev/fettle/internal/postgres/election"
)

// Who reads the Lease sees what was written; a holder that the operator took out as that of a released Lease; and a Lease
// that was made anew as one that nobody released.
func TestRecordOf(t *testing.T) {
	held := election.Lease{
		Holder: election.Holder{Name: "pg-0", UID: "a"}, SystemID: "s", Timeline: 3, Primary: "pg-0",
		End: election.Position{Timeline: 3, LSN: 1000}, History: []election.Fork{{Timeline: 2, LSN: 500}},
		Sync: []election.Quorum{{Number: 1, Names: []string{"pg-1"}}}, Instances: []string{"pg-0", "pg-1"},
	}
	released := held
	released.Holder, released.Released, released.Whole = election.Holder{}, true, true
	takenOut := held
	takenOut.Holder, takenOut.Released = election.Holder{}, true
	for _, tc := range []struct {
		name   string
		write  *election.Lease
		change func(*coordinationv1.Lease)
		want   election.Lease
	}{
		{name: "held", write: &held, want: held},
		{name: "released", write: &released, want: released},
		{name: "taken out by the operator", write: &held, change: func(o *coordinationv1.Lease) { o.Spec.HolderIdentity = nil }, want: takenOut},
		{name: "made anew"},
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
