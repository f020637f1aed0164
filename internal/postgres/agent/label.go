package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
)

const (
	// labelRetry is the time between two tries to write the label.
	labelRetry = 500 * time.Millisecond
	// labelCheck is how often somebody else's change of it is looked for.
	labelCheck = time.Minute
)

// labeler keeps the label with the instance's role on its own pod. Services route by it; safety does not depend on it.
type labeler struct {
	pods     coreclient.PodInterface
	pod, uid string
	log      *slog.Logger
	// wanted is nil until there was a decision; poke says that it changed.
	wanted atomic.Pointer[string]
	wake   chan struct{}
}

// Set has the label written; an empty one is removed. It waits for nothing.
func (l *labeler) Set(role string) {
	if before := l.wanted.Swap(&role); before != nil && *before == role {
		return
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Run writes the label whenever it changes, until the context ends.
func (l *labeler) Run(ctx context.Context) {
	current, known := "", false
	check := time.NewTicker(labelCheck)
	defer check.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		case <-check.C:
			known = false
		}
		current, known = l.reconcile(ctx, current, known)
	}
}

// reconcile writes the label until it is what is wanted, and returns what it is.
func (l *labeler) reconcile(ctx context.Context, current string, known bool) (string, bool) {
	for ctx.Err() == nil {
		wanted := l.wanted.Load()
		if wanted == nil {
			break
		}
		if !known {
			current, known = l.read(ctx)
		}
		if known && (*wanted == current || l.write(ctx, *wanted)) {
			return *wanted, true
		}
		sleep(ctx, labelRetry)
	}
	return current, known
}

func (l *labeler) read(ctx context.Context) (string, bool) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	pod, err := l.pods.Get(ctx, l.pod, metav1.GetOptions{})
	if err != nil {
		l.log.Debug("read the pod's label", "error", err.Error())
		return "", false
	}
	return pod.Labels[databasev1alpha1.LabelRole], true
}

func (l *labeler) write(ctx context.Context, role string) bool {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	if err := l.patch(ctx, l.pod, l.uid, role, ""); err != nil {
		l.log.Warn("label the pod with its role", "role", role, "error", err.Error())
		return false
	}
	return true
}

// RemoveStalePrimary takes the label of a primary from the pods of the other instances: one that was lost can't do so itself, and clients
// would still be sent to it. Only the holder of the Lease calls it. A pod that changes meanwhile is left alone, with an error.
func (l *labeler) RemoveStalePrimary(ctx context.Context, others []string) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	errs := make(chan error, len(others))
	for _, name := range others {
		go func() { errs <- l.removePrimaryLabel(ctx, name) }()
	}
	var all error
	for range others {
		all = errors.Join(all, <-errs)
	}
	return all
}

func (l *labeler) removePrimaryLabel(ctx context.Context, name string) error {
	pod, err := l.pods.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the label of pod %s: %w", name, err)
	}
	if pod.Labels[databasev1alpha1.LabelRole] != databasev1alpha1.LabelRolePrimary {
		return nil
	}
	if err := l.patch(ctx, name, string(pod.UID), "", pod.ResourceVersion); err != nil {
		return fmt.Errorf("take the label of a primary from pod %s: %w", name, err)
	}
	l.log.Info("took the label of a primary", "pod", name)
	return nil
}

// patch is refused by the API server if the pod of that name is another one, or has another version.
func (l *labeler) patch(ctx context.Context, name, uid, role, version string) error {
	labels := map[string]any{databasev1alpha1.LabelRole: nil}
	if role != "" {
		labels[databasev1alpha1.LabelRole] = role
	}
	metadata := map[string]any{"uid": uid, "labels": labels}
	if version != "" {
		metadata["resourceVersion"] = version
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err == nil {
		_, err = l.pods.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	return err
}
