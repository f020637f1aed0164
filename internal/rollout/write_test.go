package rollout

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patches is a client that keeps the patches that it is sent.
type patches struct {
	client.Client
	sent []string
}

func (p *patches) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	data, err := patch.Data(obj)
	p.sent = append(p.sent, string(data))
	return err
}

// Invariant 3: the restart and its record are one write, with the resourceVersion of the workload that was evaluated.
func TestRestart_oneWriteForTheEvaluatedWorkload(t *testing.T) {
	sent := &patches{}
	c := clock.RealClock{}
	e := &Engine{client: sent, writes: newOwnWrites(c), clock: c}
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
