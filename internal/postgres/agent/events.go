package agent

import (
	"context"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
)

const (
	maxEvents  = 8
	maxMessage = 1024
	eventTries = 4
)

// recorder creates events about the PostgreSQL object. They are few, and nothing waits for them.
type recorder struct {
	api     coreclient.EventInterface
	options *Options
	log     *slog.Logger
	// uid of the object, set by the loop before an event is recorded.
	uid    types.UID
	events chan corev1.Event
}

func newRecorder(api coreclient.EventInterface, options *Options) *recorder {
	return &recorder{api: api, options: options, log: options.Log, events: make(chan corev1.Event, maxEvents)}
}

func (r *recorder) Normal(reason, message string) { r.record(corev1.EventTypeNormal, reason, message) }

func (r *recorder) Warn(reason, message string) { r.record(corev1.EventTypeWarning, reason, message) }

func (r *recorder) record(kind, reason, message string) {
	at := metav1.Now()
	event := corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s.%x", r.options.Cluster, at.UnixNano()), Namespace: r.options.Namespace},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: databasev1alpha1.GroupVersion.String(), Kind: "PostgreSQL",
			Namespace: r.options.Namespace, Name: r.options.Cluster, UID: r.uid,
		},
		Reason: reason, Message: message[:min(len(message), maxMessage)], Type: kind,
		Source: corev1.EventSource{Component: "fettle-agent", Host: r.options.Pod}, ReportingController: "fettle.dev/agent", ReportingInstance: r.options.Pod,
		FirstTimestamp: at, LastTimestamp: at, Count: 1,
	}
	select {
	case r.events <- event:
	default:
		r.log.Warn("dropped event: too many are pending", "reason", reason, "message", message)
	}
}

func (r *recorder) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-r.events:
			r.write(ctx, &event)
		}
	}
}

// write retries a few times, because each event reports something that happens once.
func (r *recorder) write(ctx context.Context, event *corev1.Event) {
	for try := range eventTries {
		each, cancel := context.WithTimeout(ctx, apiTimeout)
		_, err := r.api.Create(each, event, metav1.CreateOptions{})
		cancel()
		if err == nil || apierrors.IsAlreadyExists(err) { // an earlier try succeeded without an answer
			return
		}
		r.log.Warn("failed to create event", "reason", event.Reason, "message", event.Message, "error", err.Error())
		if ctx.Err() != nil {
			return
		}
		sleep(ctx, retryPause<<try)
	}
}
