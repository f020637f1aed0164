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
	// labelCheck is how often the label is checked for changes by other clients.
	labelCheck = time.Minute
)

// labeler maintains the label with the instance's role on its own pod. Services route by it. Safety does not depend on it.
type labeler struct {
	pods     coreclient.PodInterface
	pod, uid string
	log      *slog.Logger
	// wanted is nil before the first decision. wake signals that it changed.
	wanted atomic.Pointer[string]
	wake   chan struct{}
}

// Set requests a value of the label; "" removes it. It does not wait.
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

// reconcile writes the label until it has the wanted value, and returns the value.
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
		l.log.Debug("failed to read the role label", "error", err.Error())
		return "", false
	}
	return pod.Labels[databasev1alpha1.LabelRole], true
}

func (l *labeler) write(ctx context.Context, role string) bool {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	if err := l.patch(ctx, l.pod, l.uid, role, ""); err != nil {
		l.log.Warn("failed to write the role label", "role", role, "error", err.Error())
		return false
	}
	return true
}

// RemoveStalePrimary removes the label of a primary from the pods of the other instances. A lost primary cannot do so itself, and
// clients would still be routed to it. Only the holder of the lease calls it. A pod that changes meanwhile is left alone, with an
// error.
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
		return fmt.Errorf("remove the primary label from pod %s: %w", name, err)
	}
	l.log.Info("removed a stale primary label", "pod", name)
	return nil
}

// patch is rejected by the API server if the pod of that name is another one, or has another version.
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
