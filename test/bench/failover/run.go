package failover

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fettle-dev/fettle/test/acks"
)

const (
	// pause is the time between an answer and a client's next row.
	pause = 5 * time.Millisecond
	// clientTimeout is how long a client waits for an answer, dial how long for a connection.
	clientTimeout, dial = time.Second, 500 * time.Millisecond
	// steadyTime is how long rows must be acknowledged again before a run ends.
	steadyTime = 3 * time.Second
	// failoverTimeout is how long a failover may take before the run counts as failed.
	failoverTimeout = 90 * time.Second
	// leaseRenewInterval is the time between two renewals of the Lease: each run starts at another moment of it.
	leaseRenewInterval = 2 * time.Second
)

// run is one run of a row.
type run struct {
	*suite
	row    row
	result Result
	begun  time.Time
	// client writes through the Service; onNode connects to the primary on its node, nil in most rows.
	client, onNode *acks.Writer
}

// measureRun injects the fault, waits until the cluster is healthy again, and counts.
func (s *suite) measureRun(ctx context.Context, r row, number int) (Result, error) {
	out := run{suite: s, row: r, result: Result{
		Row: r.name, Title: r.title, Operator: s.mode, Synchronous: s.Synchronous, Lossless: s.Synchronous || r.asynchronous,
		Number: number, Limit: r.limit,
	}}
	if err := s.waitHealthy(ctx); err != nil {
		return out.result, err
	}
	p, err := s.primary(ctx)
	if err != nil {
		return out.result, err
	}
	if err := sleep(ctx, r.minTenure+rand.N(leaseRenewInterval)); err != nil { //nolint:gosec // nothing secret
		return out.result, err
	}
	out.result.Node = p.pod.Spec.NodeName
	logs := s.follow(ctx, fmt.Sprintf("%s-%s-%d", r.name, s.mode, number))
	err = out.measure(ctx, p)
	logs(ctx, err != nil || out.result.Problems() != "")
	return out.result, err
}

// measure measures the clients' view.
func (r *run) measure(ctx context.Context, p primary) (err error) {
	var clients []*acks.Writer
	write := func(name string, target acks.Target) *acks.Writer {
		l := acks.Start(ctx, acks.Options{
			Name: fmt.Sprintf("%s-%s-%s-%d", name, r.row.name, r.mode, time.Now().UnixNano()), Connect: target.Connect,
			Pause: pause, AnswerTimeout: clientTimeout, DialTimeout: dial,
		})
		clients = append(clients, l)
		return l
	}
	defer func() {
		for _, l := range clients {
			l.End()
		}
	}()
	r.client = write("service", r.service)
	if r.row.clientOnNode {
		target := r.service
		target.Address, target.Dial = p.pod.Status.PodIP+":5432", r.local.Dialer(p.pod.Spec.NodeName)
		r.onNode = write("inside", target)
	}
	for _, l := range clients {
		if err := written(ctx, l, time.Now()); err != nil {
			return err
		}
	}
	if err := sleep(ctx, time.Second); err != nil {
		return err
	}
	if err := r.injectFault(ctx, p); err != nil {
		return err
	}
	for _, l := range clients {
		l.End()
	}
	return r.count(ctx, clients)
}

func written(ctx context.Context, l *acks.Writer, since time.Time) error {
	return waitFor(ctx, time.Minute, "an acknowledged row", func(context.Context) error {
		if l.FirstAfter(since).IsZero() {
			return errors.New("no row is acknowledged yet")
		}
		return nil
	})
}

// injectFault injects the fault, and reverts it after the failover.
func (r *run) injectFault(ctx context.Context, p primary) error {
	n := len(r.cleanups)
	if r.row.prepare != nil {
		if err := r.row.prepare(ctx, r.suite, p); err != nil {
			return err
		}
	}
	r.begun = time.Now()
	if err := r.row.inject(ctx, r.suite, p); err != nil {
		return err
	}
	if r.row.faultDuration > 0 {
		if err := sleep(ctx, r.row.faultDuration); err != nil {
			return err
		}
	} else if err := waitFor(ctx, failoverTimeout, "rows that are acknowledged again", r.recovered); err != nil {
		if ctx.Err() != nil {
			return err
		}
		r.result.Stuck = true
		r.logf("%s: %s", r.row.name, err)
	}
	if r.onNode != nil && !r.result.Stuck {
		r.result.Margin = r.client.Gap(r.begun).To.Answered.Sub(r.onNode.Last())
	}
	if err := r.undo(ctx, n); err != nil {
		return err
	}
	if err := r.waitHealthy(ctx); err != nil {
		return err
	}
	r.result.HealthyAfter = time.Since(r.begun)
	if err := written(ctx, r.client, time.Now()); err != nil {
		return err
	}
	return sleep(ctx, time.Second)
}

// recovered is nil if the client had a failure, and none for a while since.
func (r *run) recovered(context.Context) error {
	var before acks.Server
	var broken bool
	var again time.Time
	for _, e := range r.client.Entries() {
		switch {
		case e.Answered.Before(r.begun):
			before = e.Server
		case !e.Acknowledged:
			broken, again = true, time.Time{}
		case (broken || e.Server != before) && again.IsZero():
			broken, again = true, e.Answered
		}
	}
	switch {
	case !broken:
		return errors.New("the client had no failure")
	case again.IsZero():
		return errors.New("no row is acknowledged")
	case time.Since(again) < steadyTime:
		return errors.New("rows were only just acknowledged again")
	}
	return nil
}

// count compares the acknowledged rows with the rows in the database.
func (r *run) count(ctx context.Context, clients []*acks.Writer) error {
	gap := r.client.Gap(r.begun)
	r.result.Gap, r.result.Errors = gap.Length(), r.client.Failed(r.begun)
	servers, _ := acks.Overlap(r.client.Entries())
	r.result.Changes = len(servers) - 1
	return waitFor(ctx, time.Minute, "the number of rows", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		conn, err := r.service.Connect(ctx)
		if err != nil {
			return err
		}
		defer conn.Close(ctx) //nolint:errcheck // nothing more is asked
		report, err := acks.Compare(ctx, conn, clients...)
		if err != nil {
			return err
		}
		r.result.Rows, r.result.Lost = report.Acknowledged, report.Lost
		r.result.Duplicated, r.result.Overlapping = report.Duplicated, report.Overlapping
		return nil
	})
}

// sleep waits, or ends with the context.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
