// Package progress counts the bytes of a copy, and estimates its end.
package progress

import (
	"context"
	"io"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
)

// interval is the shortest time between two reports.
const interval = 10 * time.Second

// Report passes the progress on. A lost report does no harm, since the next one replaces it.
type Report func(context.Context, backupv1alpha1.Progress) error

// Counter counts bytes and reports them.
type Counter struct {
	report Report
	bytes  atomic.Int64
	total  atomic.Int64
	begin  time.Time
}

// New returns a Counter that has not started.
func New(report Report) *Counter { return &Counter{report: report} }

// Start begins to count at 0, and to report every 10 seconds: what was copied before counts for nothing. total is 0 if it is unknown. The
// returned function ends the reports.
func (c *Counter) Start(ctx context.Context, total int64) (stop func()) {
	c.bytes.Store(0)
	c.total.Store(total)
	c.begin = time.Now()
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			_ = c.report(ctx, c.State())
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}()
	return func() { cancel(); <-done }
}

// SetTotal sets the total of a copy that has started.
func (c *Counter) SetTotal(total int64) { c.total.Store(total) }

// State is the progress since Start.
func (c *Counter) State() backupv1alpha1.Progress {
	now := time.Now()
	return of(c.bytes.Load(), c.total.Load(), now.Sub(c.begin), now)
}

// of is the progress of a copy that took so long for these bytes. Their number may exceed total, which can be an estimate.
func of(bytes, total int64, elapsed time.Duration, now time.Time) backupv1alpha1.Progress {
	out := backupv1alpha1.Progress{Bytes: bytes, TotalBytes: total}
	if total <= 0 {
		return out
	}
	out.Percent = new(int32(min(99, 100*float64(bytes)/float64(total))))
	if left := total - bytes; left > 0 && bytes > 0 {
		wait := float64(elapsed) / float64(bytes) * float64(left)
		out.EstimatedEndTime = new(metav1.NewTime(now.Add(time.Duration(wait)).Truncate(time.Second)))
	}
	return out
}

// Finish reports that everything is done.
func (c *Counter) Finish(ctx context.Context) {
	_ = c.report(ctx, Complete(c.State()))
}

// Complete is the progress after the end.
func Complete(p backupv1alpha1.Progress) backupv1alpha1.Progress {
	return backupv1alpha1.Progress{Bytes: p.Bytes, TotalBytes: max(p.Bytes, p.TotalBytes), Percent: new(int32(100))}
}

// Write counts the bytes.
func (c *Counter) Write(data []byte) (int, error) {
	c.bytes.Add(int64(len(data)))
	return len(data), nil
}

// Reader counts what is read from r.
func (c *Counter) Reader(r io.Reader) io.Reader { return io.TeeReader(r, c) }
