package rollout

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-dev/fettle/internal/apply"
)

// patches is a client that keeps the patches that it is sent. Each makes version 12.
type patches struct {
	client.Client
	sent []string
}

func (p *patches) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	data, err := patch.Data(obj)
	obj.SetResourceVersion("12")
	p.sent = append(p.sent, string(data))
	return err
}

func newTestEngine() (*Engine, *patches) {
	sent, c := &patches{}, clocktesting.NewFakePassiveClock(start)
	return &Engine{client: sent, expectations: apply.NewExpectations(c), recorded: lru.New(1), clock: c}, sent
}

// Invariant 3: the restart and its record are one write, with the resourceVersion of the workload that was evaluated.
func TestRestart_oneWriteForTheEvaluatedWorkload(t *testing.T) {
	e, sent := newTestEngine()
	owner := Owner{Prefix: ConfigPrefix, Namespace: "web", Name: "shop"}
	n := record{Hash: "0123456789", At: time.Unix(1, 0).UTC()}
	if err := e.restart(t.Context(), owner, &Workload{Kind: Deployment, Namespace: "web", Name: "shop", ResourceVersion: "7"}, action{record: n}); err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": "7", "annotations": annotations{owner.annotation(): n.String()}},
		"spec":     map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": annotations{owner.annotation(): n.Hash}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(sent.sent) != 1 || sent.sent[0] != string(want) {
		t.Errorf("sent %q, want only %s", sent.sent, want)
	}
}

// Invariant 12: the engine waits until the cache shows its own writes.
func TestOwnWrites(t *testing.T) {
	e, _ := newTestEngine()
	w := user(Deployment, "x")
	w.ResourceVersion = "10"
	if err := e.writeRecord(t.Context(), theOwner, w, restartRecord("h", start)); err != nil {
		t.Fatal(err)
	}
	if got := e.lastWrites(theOwner)(w); !got.cacheBehind || !got.recordedAt.Equal(start) {
		t.Errorf("right after a write: %+v", got)
	}
	if other := (Owner{Prefix: VotingPrefix, Name: "shop"}); !e.lastWrites(other)(w).recordedAt.IsZero() {
		t.Error("one owner's record counts for another")
	}
	w.ResourceVersion = "12"
	if e.lastWrites(theOwner)(w).cacheBehind {
		t.Error("behind although the cache shows the write")
	}
	w.UID = "v"
	if got := e.lastWrites(theOwner)(w); got != (lastWrite{}) {
		t.Errorf("another object of the same name: %+v", got)
	}
}
