package progress

import (
	"context"
	"testing"
	"time"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
)

func TestOf_estimate(t *testing.T) {
	now := time.Date(2026, 11, 23, 2, 0, 0, 0, time.UTC)
	const unknown = -1
	for what, c := range map[string]struct {
		bytes, total int64
		percent      int32
		left         time.Duration
	}{
		"a quarter in 10 s":              {250, 1000, 25, 30 * time.Second},
		"nothing yet":                    {0, 1000, 0, unknown},
		"all, and the end is not known":  {1000, 1000, 99, unknown},
		"more than the estimate":         {5000, 1000, 99, unknown},
		"the total is unknown":           {5000, 0, unknown, unknown},
		"a percent of it exceeds 64 bit": {1 << 61, 1 << 62, 50, 10 * time.Second},
	} {
		p := of(c.bytes, c.total, 10*time.Second, now)
		percent, left := int32(unknown), time.Duration(unknown)
		if p.Percent != nil {
			percent = *p.Percent
		}
		if p.EstimatedEndTime != nil {
			left = p.EstimatedEndTime.Sub(now)
		}
		if p.Bytes != c.bytes || p.TotalBytes != c.total || percent != c.percent || left != c.left {
			t.Errorf("%s: %+v, %d %%, %s left", what, p, percent, left)
		}
	}
}

// TestCounter_startsAgain: a copy that was given up, such as that of a standby, is not part of the progress of the next one.
func TestCounter_startsAgain(t *testing.T) {
	var last backupv1alpha1.Progress
	c := New(func(_ context.Context, p backupv1alpha1.Progress) error { last = p; return nil })
	for range 2 {
		stop := c.Start(t.Context(), 1000)
		_, _ = c.Write(make([]byte, 400))
		stop()
	}
	if s := c.State(); s.Bytes != 400 || *s.Percent != 40 {
		t.Errorf("%+v, want 400 bytes", s)
	}
	if c.Finish(t.Context()); last.Bytes != 400 || last.TotalBytes != 1000 || *last.Percent != 100 || last.EstimatedEndTime != nil {
		t.Errorf("%+v at the end", last)
	}
}
