package failover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/test/localcluster"
)

// row is a line of the table: a fault of the primary.
type row struct {
	name, title string
	// limit is the maximum time without an acknowledged row.
	limit time.Duration
	// only is when the row is measured: with the operator up, at zero, or both if empty.
	only string
	// inject injects the fault, and registers its cleanup with the suite.
	inject func(ctx context.Context, s *suite, p primary) error
	// clientOnNode adds a second client on the primary's node.
	clientOnNode bool
	// faultDuration is how long the fault lasts if no failover is expected; zero otherwise.
	faultDuration time.Duration
	// prepare runs while clients write, before the measurement; nil for nothing.
	prepare func(ctx context.Context, s *suite, p primary) error
	// asynchronous means that the row is measured only without synchronous replication at first. No row may be lost all the same.
	asynchronous bool
	// minTenure is how long the primary must have been primary before.
	minTenure time.Duration
	// begin measures how long a new PostgreSQL takes to become Ready, without a fault.
	begin bool
}

// withoutFailover are the rows without a failover, which clients do not notice.
var withoutFailover = []string{"api", "writes", "damage"}

var allRows = []row{
	// A new primary rejects a switchover at first.
	{name: "switchover", title: "planned switchover", limit: time.Second, only: OperatorUp, inject: switchOver, minTenure: 5 * time.Second},
	{name: "kill", title: "SIGKILL of the postmaster", limit: 3 * time.Second, inject: killPostmaster},
	{name: "delete", title: "pod deleted, grace 1 s", limit: 3 * time.Second, inject: deletePod},
	{name: "hang", title: "hung primary (SIGSTOP)", limit: 12 * time.Second, inject: hangPostgreSQL},
	{name: "node", title: "node lost", limit: 12 * time.Second, inject: loseNode},
	{name: "cut", title: "node cut off, clients still on it", limit: 12 * time.Second, inject: isolateNode, clientOnNode: true},
	{name: "api", title: "API server down for 20 s", limit: time.Second, inject: stopAPIServer, faultDuration: 20 * time.Second},
	{name: "writes", title: "API server rejects all writes for 60 s", limit: time.Second, inject: rejectWrites, faultDuration: time.Minute},
	{
		name: "behind", title: "planned switchover, one standby 200 MiB behind", limit: time.Second, only: OperatorUp,
		prepare: stallOneStandby, inject: switchOver, minTenure: 5 * time.Second,
	},
	{name: "damage", title: "standby damaged, and recloned", limit: time.Second, inject: damageStandby, faultDuration: 10 * time.Second},
	{
		name: "turned-on", title: "synchronous turned on, then node lost", limit: 12 * time.Second, only: OperatorUp, asynchronous: true,
		prepare: enableSynchronous, inject: loseNode,
	},
	{
		name: "stale", title: "pod deleted, both standbys 200 MiB behind", limit: time.Minute, asynchronous: true,
		prepare: stallAllStandbys, inject: deletePodGracefully,
	},
	{name: "start", title: "first instance Ready after apply", limit: 8 * time.Second, only: OperatorUp, begin: true},
}

// Rows returns the names of all rows.
func Rows() []string {
	names := make([]string, len(allRows))
	for i, r := range allRows {
		names[i] = r.name
	}
	return names
}

// switchOver requests the next instance as the primary, and withdraws the request.
func switchOver(ctx context.Context, s *suite, p primary) error {
	s.onCleanup("withdraw the switchover", func(ctx context.Context) error { return s.annotate(ctx, "") })
	return s.annotate(ctx, s.nextInstance(p.pod.Name))
}

// annotate requests a switchover, or withdraws the request.
func (s *suite) annotate(ctx context.Context, to string) error {
	pg := s.database()
	if err := s.client.Get(ctx, client.ObjectKeyFromObject(pg), pg); err != nil {
		return err
	}
	before := pg.DeepCopy()
	delete(pg.Annotations, databasev1alpha1.AnnotationSwitchover)
	if to != "" {
		metav1.SetMetaDataAnnotation(&pg.ObjectMeta, databasev1alpha1.AnnotationSwitchover, to)
	}
	if len(pg.Annotations) == len(before.Annotations) && to == "" {
		return nil
	}
	return s.client.Patch(ctx, pg, client.MergeFrom(before))
}

func deletePod(ctx context.Context, s *suite, p primary) error {
	return s.client.Delete(ctx, &p.pod, client.GracePeriodSeconds(1))
}

func killPostmaster(_ context.Context, _ *suite, p primary) error {
	server, err := p.server()
	if err != nil {
		return err
	}
	return server[0].Signal(syscall.SIGKILL)
}

// hangPostgreSQL stops PostgreSQL, but not the agent: first the process that forks new ones, then all others.
func hangPostgreSQL(_ context.Context, s *suite, p primary) error {
	server, err := p.server()
	if err != nil {
		return err
	}
	s.onCleanup("resume PostgreSQL", func(context.Context) error {
		all, err := p.server()
		if err != nil {
			return nil //nolint:nilerr // the container has exited
		}
		return signal(all, syscall.SIGCONT)
	})
	if err := server[0].Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	if server, err = p.server(); err != nil {
		return err
	}
	return signal(server, syscall.SIGSTOP)
}

// loseNode isolates the primary's node, stops its kubelet and kills the pod, without notice.
func loseNode(ctx context.Context, s *suite, p primary) error {
	kubelet, err := s.local.Daemon("kubelet-" + p.pod.Spec.NodeName)
	if err != nil {
		return err
	}
	all, err := localcluster.Container(p.container)
	if err != nil {
		return err
	}
	s.onCleanup("replace "+p.pod.Name, func(ctx context.Context) error { // the restart of a container that was killed before is delayed longer each time
		return client.IgnoreNotFound(s.client.Delete(ctx, &p.pod, client.GracePeriodSeconds(1), client.Preconditions{UID: &p.pod.UID}))
	})
	if err := isolateNode(ctx, s, p); err != nil {
		return err
	}
	s.onCleanup("resume the kubelet", func(context.Context) error { return kubelet.Signal(syscall.SIGCONT) })
	if err := kubelet.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return signal(all, syscall.SIGKILL)
}

func isolateNode(ctx context.Context, s *suite, p primary) error {
	node := p.pod.Spec.NodeName
	s.onCleanup("join "+node, func(ctx context.Context) error { return s.local.Reconnect(ctx, node) })
	return s.local.Isolate(ctx, node)
}

func stopAPIServer(_ context.Context, s *suite, _ primary) error {
	server, err := s.local.Daemon("kube-apiserver")
	if err != nil {
		return err
	}
	s.onCleanup("resume the API server", func(context.Context) error { return server.Signal(syscall.SIGCONT) })
	return server.Signal(syscall.SIGSTOP)
}

// server returns the processes of the primary's PostgreSQL.
func (p primary) server() ([]localcluster.Process, error) {
	all, err := localcluster.Container(p.container)
	if err != nil {
		return nil, err
	}
	server := localcluster.PostgreSQL(all)
	if len(server) == 0 {
		return nil, fmt.Errorf("no PostgreSQL runs in %s", p.pod.Name)
	}
	return server, nil
}

// signal sends a signal to all processes that still exist.
func signal(all []localcluster.Process, signal syscall.Signal) error {
	var errs []error
	for _, p := range all {
		if err := p.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
