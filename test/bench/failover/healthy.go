package failover

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
)

// primary is the instance with the fault.
type primary struct {
	pod       corev1.Pod
	container string
}

// pods are the instances of a PostgreSQL.
func (s *suite) pods(ctx context.Context, of string) ([]corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	list := &corev1.PodList{}
	err := s.client.List(ctx, list, client.InNamespace(s.Namespace), client.MatchingLabels{"app": of})
	return list.Items, err
}

// waitHealthy waits until all instances are ready, one of them is the primary, and all others stream from it.
func (s *suite) waitHealthy(ctx context.Context) error {
	return waitFor(ctx, settleTime, "three ready instances that stream", func(ctx context.Context) error {
		_, err := s.primary(ctx)
		if err != nil {
			return err
		}
		return s.streaming(ctx)
	})
}

// primary returns the primary of a cluster with only ready instances.
func (s *suite) primary(ctx context.Context) (primary, error) {
	pods, err := s.pods(ctx, name)
	if err != nil {
		return primary{}, err
	}
	var found []primary
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil || !ready(&pod) {
			return primary{}, fmt.Errorf("%s is not ready", pod.Name)
		}
		if pod.Labels[databasev1alpha1.LabelRole] == databasev1alpha1.LabelRolePrimary {
			found = append(found, primary{pod: pod, container: pod.Status.ContainerStatuses[0].ContainerID})
		}
	}
	if len(pods) != instances || len(found) != 1 {
		return primary{}, fmt.Errorf("there are %d instances and %d primaries", len(pods), len(found))
	}
	return found[0], nil
}

func ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue && len(pod.Status.ContainerStatuses) > 0
		}
	}
	return false
}

// streaming is nil if both other instances stream from the primary, and in synchronous mode confirm commits.
func (s *suite) streaming(ctx context.Context) error {
	stream, count, err := s.replicas(ctx)
	if err == nil && (stream != instances-1 || s.Synchronous && count != instances-1) {
		err = fmt.Errorf("%d instances stream from the primary, and %d confirm commits", stream, count)
	}
	return err
}

// replicas queries the primary for the number of streaming standbys, and of those that commits may wait for.
func (s *suite) replicas(ctx context.Context) (stream, waitedFor int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := s.service.Connect(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer conn.Close(ctx) //nolint:errcheck // nothing more is asked
	err = conn.QueryRow(ctx, `SELECT count(*), count(*) FILTER (WHERE sync_state IN ('sync', 'quorum'))
FROM pg_stat_replication WHERE state = 'streaming' AND flush_lsn IS NOT NULL`).Scan(&stream, &waitedFor)
	return stream, waitedFor, err
}
