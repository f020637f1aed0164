package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/postgres/wal"
	"github.com/fettle-dev/fettle/internal/testenv/fakepg"
	"github.com/fettle-dev/fettle/test/audit"
)

const (
	// pgInstances is how many instances each PostgreSQL has.
	pgInstances = 3
	// renewEvery is how often an agent that is primary renews its Lease.
	renewEvery = 2 * time.Second
)

// postgresMemory measures the manager with PostgreSQLs whose environment is a fake: pods that are Ready at once, and agents that answer to
// the operator over mTLS, renew their Leases, and report changing positions.
func (b *bench) postgresMemory(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	kubelet, err := fakepg.Start(ctx, b.env.Admin, fakepg.Options{Log: func(err error) { b.logf("%v", err) }})
	if err != nil {
		cancel()
		return err
	}
	defer kubelet.Wait()
	defer cancel()
	namespace, err := b.env.NewNamespace(ctx, "databases")
	if err != nil {
		return err
	}
	r := &pgMemory{bench: b, namespace: namespace, fettle: contenders(1)[0]}
	kubelet.Update(r.varyMetrics)
	if err := r.measure(ctx); err != nil {
		return err
	}
	record := b.record(fmt.Sprintf("%d PostgreSQLs of %d instances, Ready after %.1f s. Pods and agents are simulated: the agents answer by mTLS and report new positions. ",
		b.options.databases, pgInstances, r.seconds) + fmt.Sprintf("They renewed their Leases %d times while the operator was idle for %s.", r.idleRenewals, b.options.idle))
	record.Columns = memoryColumns
	record.Add(r.results.cells(r.fettle.about)...)
	return b.write(record, modePgMemory)
}

// pgMemory is one such measurement.
type pgMemory struct {
	*bench
	namespace string
	fettle    contender
	renewals  atomic.Int64
	results   memoryResult
	// seconds until all were Ready, and renewals while the manager was idle.
	seconds      float64
	idleRenewals int64
}

func (r *pgMemory) measure(ctx context.Context) error {
	first, err := r.start(r.fettle)
	if err != nil {
		return err
	}
	renewing, err := r.converge(ctx, first)
	defer renewing()
	if err == nil {
		err = r.watchIdle(ctx, first)
	}
	if err := errors.Join(err, first.stop()); err != nil {
		return err
	}
	mark, err := r.audit.Mark(ctx)
	if err != nil {
		return err
	}
	second, err := r.start(r.fettle)
	if err != nil {
		return err
	}
	err = r.restarted(ctx, &r.results, r.fettle, second, mark)
	return errors.Join(err, second.stop())
}

// converge measures the empty manager and lets it create all PostgreSQLs. From then on their Leases are renewed, until the returned
// function is called.
func (r *pgMemory) converge(ctx context.Context, p *process) (func(), error) {
	none := func() {}
	if err := r.probe(ctx, p); err != nil {
		return none, err
	}
	if err := sleep(ctx, settleTime); err != nil {
		return none, err
	}
	used, err := p.usage()
	if err != nil {
		return none, err
	}
	r.results.empty = used.rss
	began := time.Now()
	for i := range r.options.databases {
		if err := r.admin.Create(ctx, r.postgreSQL(i)); err != nil {
			return none, fmt.Errorf("create PostgreSQL: %w", err)
		}
	}
	if err := r.awaitReady(ctx, p); err != nil {
		return none, err
	}
	r.seconds = time.Since(began).Seconds()
	stop := r.renew(ctx)
	return stop, sleep(ctx, settleTime)
}

func (r *pgMemory) name(i int) string { return fmt.Sprintf("db%02d", i) }

func (r *pgMemory) postgreSQL(i int) *databasev1alpha1.PostgreSQL {
	return &databasev1alpha1.PostgreSQL{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: r.name(i)},
		Spec: databasev1alpha1.PostgreSQLSpec{
			Version: "16", Storage: resource.MustParse("1Gi"), Replicas: new(int32(pgInstances)),
			Synchronous: &databasev1alpha1.PostgreSQLSynchronous{Number: 1},
		},
	}
}

func (r *pgMemory) awaitReady(ctx context.Context, p *process) error {
	ready := 0
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, r.options.limit, true, func(ctx context.Context) (bool, error) {
		select {
		case <-p.done:
			return false, p.failure()
		default:
		}
		all := &databasev1alpha1.PostgreSQLList{}
		if err := r.admin.List(ctx, all, client.InNamespace(r.namespace)); err != nil {
			return false, err
		}
		ready = 0
		for i := range all.Items {
			if meta.IsStatusConditionTrue(all.Items[i].Status.Conditions, fettlev1.Ready) {
				ready++
			}
		}
		return ready == r.options.databases, nil
	})
	if err != nil {
		return fmt.Errorf("%d of %d PostgreSQLs are Ready: %w", ready, r.options.databases, err)
	}
	return nil
}

// renew acts as the agents of all primaries, until the returned function is called.
func (r *pgMemory) renew(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var agents sync.WaitGroup
	for i := range r.options.databases {
		agents.Go(func() {
			for sleep(ctx, renewEvery) == nil {
				lease := &coordinationv1.Lease{}
				err := r.admin.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: r.name(i)}, lease)
				if err == nil {
					lease.Spec.RenewTime = new(metav1.NowMicro())
					err = r.admin.Update(ctx, lease)
				}
				if err == nil {
					r.renewals.Add(1)
				} else if ctx.Err() == nil {
					r.logf("renew Lease %s: %v", r.name(i), err)
				}
			}
		})
	}
	return func() { cancel(); agents.Wait() }
}

// varyMetrics makes agents report different numbers each time, like those of databases in use.
func (r *pgMemory) varyMetrics(kubelet *fakepg.Kubelet) {
	var position atomic.Uint64
	for i := range r.options.databases {
		for ordinal := range pgInstances {
			kubelet.ChangeStatus[agentapi.Pod(r.name(i), ordinal)] = func(s *agentapi.Status) {
				at := position.Add(8192)
				s.Received, s.Replayed, s.APIReachable = wal.LSN(1<<30+at), wal.LSN(1<<30+at-at%3), true
				s.DiskFree -= min(s.DiskFree, at)
			}
		}
	}
}

// watchIdle measures the manager while only the Leases and positions change.
func (r *pgMemory) watchIdle(ctx context.Context, p *process) error {
	renewals := r.renewals.Load()
	mark, err := r.audit.Mark(ctx)
	if err != nil {
		return err
	}
	if err := r.idle(ctx, &r.results, r.fettle, p); err != nil {
		return err
	}
	r.idleRenewals = r.renewals.Load() - renewals
	if r.results.idleWrites+r.results.idleLiveReads == 0 {
		return nil
	}
	sent, err := r.audit.Since(ctx, mark, audit.Filter{User: r.fettle.user})
	fmt.Fprintf(os.Stderr, "while idle %s sent:\n%s\n", r.fettle.name, sent)
	return err
}
