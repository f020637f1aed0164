package agent

import (
	"errors"
	"log/slog"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestRecorder_retries checks that an event survives writes that fail, and is written once where only the answer was lost.
func TestRecorder_retries(t *testing.T) {
	for name, test := range map[string]struct {
		errs []error
		want int
	}{
		"fails once":           {errs: []error{errors.New("connection refused"), nil}, want: 2},
		"the answer was lost":  {errs: []error{errors.New("timeout"), apierrors.NewAlreadyExists(schema.GroupResource{}, "e")}, want: 2},
		"is written, and done": {errs: []error{nil}, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			api, tries := fake.NewClientset(), 0
			api.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
				err := test.errs[min(tries, len(test.errs)-1)]
				tries++
				return true, &corev1.Event{}, err
			})
			r := newRecorder(api.CoreV1().Events("shop"), &Options{Cluster: "db", Log: slog.New(slog.DiscardHandler)})
			r.write(t.Context(), &corev1.Event{Reason: "Rewound"})
			if tries != test.want {
				t.Errorf("%d writes, not %d", tries, test.want)
			}
		})
	}
}
