package failover

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/test/localcluster"
)

// standbyLagBytes is how much write-ahead log a replica lacks that is behind.
const standbyLagBytes = 200 << 20

// rejectWrites has the API server refuse every write, as a webhook that fails closed and cannot be reached does. Configurations of
// webhooks are no webhook's business, so this one can be removed.
func rejectWrites(ctx context.Context, s *suite, _ primary) error {
	nobody, fail, none := "https://127.0.0.1:1/", admissionv1.Fail, admissionv1.SideEffectClassNone
	hook := &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "fettle-bench-refuses-writes"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "writes.bench.fettle.dev", FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			TimeoutSeconds: new(int32(1)), ClientConfig: admissionv1.WebhookClientConfig{URL: &nobody},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.OperationAll},
				Rule:       admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}},
			}},
		}},
	}
	s.onCleanup("accept writes", func(ctx context.Context) error { return client.IgnoreNotFound(s.client.Delete(ctx, hook)) })
	return s.client.Create(ctx, hook)
}

// enableSynchronous changes a cluster that commits alone to one in which commits wait for another instance, and waits until they do.
func enableSynchronous(ctx context.Context, s *suite, _ primary) error {
	set := func(ctx context.Context, synchronous *databasev1alpha1.PostgreSQLSynchronous) error {
		pg := s.database()
		if err := s.client.Get(ctx, client.ObjectKeyFromObject(pg), pg); err != nil {
			return err
		}
		before := pg.DeepCopy()
		pg.Spec.Synchronous = synchronous
		return s.client.Patch(ctx, pg, client.MergeFrom(before))
	}
	s.onCleanup("turn off synchronous", func(ctx context.Context) error { return set(ctx, nil) })
	if err := set(ctx, &databasev1alpha1.PostgreSQLSynchronous{Number: 1}); err != nil {
		return err
	}
	return waitFor(ctx, time.Minute, "commits that wait for another instance", func(ctx context.Context) error {
		_, waitedFor, err := s.replicas(ctx)
		if err == nil && waitedFor == 0 {
			err = errors.New("they wait for none")
		}
		return err
	})
}

// stallOneStandby has the replica after the next primary receive nothing while clients write, until things are set right.
func stallOneStandby(ctx context.Context, s *suite, p primary) error {
	if err := s.stopWALReceiver(ctx, s.nextInstance(s.nextInstance(p.pod.Name))); err != nil {
		return err
	}
	return s.fill(ctx, standbyLagBytes)
}

// stallAllStandbys has both replicas receive nothing, until things are set right.
func stallAllStandbys(ctx context.Context, s *suite, p primary) error {
	for pod := s.nextInstance(p.pod.Name); pod != p.pod.Name; pod = s.nextInstance(pod) {
		if err := s.stopWALReceiver(ctx, pod); err != nil {
			return err
		}
	}
	return s.fill(ctx, standbyLagBytes)
}

// fill writes so many bytes of write-ahead log.
func (s *suite) fill(ctx context.Context, size int) error {
	conn, err := s.service.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx) //nolint:errcheck // nothing more is asked
	_, err = conn.Exec(ctx, "SELECT count(pg_logical_emit_message(false, 'bench', repeat('x', 1048576))) FROM generate_series(1, $1)", size>>20)
	return err
}

// stopWALReceiver stops the process of a replica that receives write-ahead log.
func (s *suite) stopWALReceiver(ctx context.Context, pod string) error {
	all, err := s.processes(ctx, pod)
	if err != nil {
		return err
	}
	for _, process := range all {
		title, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(process.PID), "cmdline"))
		if err != nil || !bytes.Contains(title, []byte("walreceiver")) {
			continue
		}
		s.onCleanup("let "+pod+" receive", func(context.Context) error {
			return signal([]localcluster.Process{process}, syscall.SIGCONT)
		})
		return process.Signal(syscall.SIGSTOP)
	}
	return fmt.Errorf("%s has no process that receives", pod)
}

// processes are those of an instance's PostgreSQL.
func (s *suite) processes(ctx context.Context, name string) ([]localcluster.Process, error) {
	pods, err := s.pods(ctx, s.database().Name)
	if err != nil {
		return nil, err
	}
	for _, pod := range pods {
		if pod.Name == name && len(pod.Status.ContainerStatuses) > 0 {
			return primary{pod: pod, container: pod.Status.ContainerStatuses[0].ContainerID}.server()
		}
	}
	return nil, fmt.Errorf("there is no pod %s that runs", name)
}

// deletePodGracefully deletes the primary's pod with the grace period that it has.
func deletePodGracefully(ctx context.Context, s *suite, p primary) error {
	return s.client.Delete(ctx, &p.pod)
}

// damageStandby takes from the next instance, a replica, a file without which PostgreSQL does not start, and kills it.
func damageStandby(ctx context.Context, s *suite, p primary) error {
	all, err := s.processes(ctx, s.nextInstance(p.pod.Name))
	if err != nil {
		return err
	}
	// The working directory of PostgreSQL is its data directory.
	data := filepath.Join("/proc", strconv.Itoa(all[0].PID), "cwd")
	if err := os.Truncate(filepath.Join(data, "global", "pg_control"), 0); err != nil {
		return err
	}
	return all[0].Signal(syscall.SIGKILL)
}
