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

// standbyLagBytes is how much WAL a lagging standby lacks.
const standbyLagBytes = 200 << 20

// rejectWrites makes the API server reject every write, like an unreachable webhook that fails closed. Webhooks do not apply to webhook
// configurations, so this one can be removed.
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

// enableSynchronous enables synchronous replication in a cluster without it, and waits until commits wait for a standby.
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
	s.onCleanup("disable synchronous", func(ctx context.Context) error { return set(ctx, nil) })
	if err := set(ctx, &databasev1alpha1.PostgreSQLSynchronous{Number: 1}); err != nil {
		return err
	}
	return waitFor(ctx, time.Minute, "commits that wait for a standby", func(ctx context.Context) error {
		_, waitedFor, err := s.replicas(ctx)
		if err == nil && waitedFor == 0 {
			err = errors.New("commits wait for no standby")
		}
		return err
	})
}

// stallOneStandby stops the WAL receiver of the standby after the next primary, while clients write, until cleanup.
func stallOneStandby(ctx context.Context, s *suite, p primary) error {
	if err := s.stopWALReceiver(ctx, s.nextInstance(s.nextInstance(p.pod.Name))); err != nil {
		return err
	}
	return s.fill(ctx, standbyLagBytes)
}

// stallAllStandbys stops the WAL receivers of both standbys until cleanup.
func stallAllStandbys(ctx context.Context, s *suite, p primary) error {
	for pod := s.nextInstance(p.pod.Name); pod != p.pod.Name; pod = s.nextInstance(pod) {
		if err := s.stopWALReceiver(ctx, pod); err != nil {
			return err
		}
	}
	return s.fill(ctx, standbyLagBytes)
}

// fill writes that many bytes of WAL.
func (s *suite) fill(ctx context.Context, size int) error {
	conn, err := s.service.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx) //nolint:errcheck // nothing more is asked
	_, err = conn.Exec(ctx, "SELECT count(pg_logical_emit_message(false, 'bench', repeat('x', 1048576))) FROM generate_series(1, $1)", size>>20)
	return err
}

// stopWALReceiver stops the WAL receiver process of a standby.
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
	return fmt.Errorf("%s has no WAL receiver", pod)
}

// processes returns the PostgreSQL processes of an instance.
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
	return nil, fmt.Errorf("no running pod %s", name)
}

// deletePodGracefully deletes the primary's pod with its own grace period.
func deletePodGracefully(ctx context.Context, s *suite, p primary) error {
	return s.client.Delete(ctx, &p.pod)
}

// damageStandby removes from the next instance, a standby, a file that PostgreSQL needs to start, and kills it.
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
