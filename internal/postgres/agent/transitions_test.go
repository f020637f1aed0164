package agent

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"
)

// One query that fails must not leave a promotion without an end: the instance would be Promoting for ever.
func TestAgain_failedQuery(t *testing.T) {
	t.Parallel()
	failure := errors.New("conn closed")
	ended := make(chan struct{})
	close(ended)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name  string
		ctx   context.Context
		ended chan struct{}
		// fails is how many queries fail, tries how many are sent.
		fails, tries int
		want         error
	}{
		{"succeeds", t.Context(), nil, 0, 1, nil},
		{"fails twice", t.Context(), nil, 2, 3, nil},
		{"the server has ended", t.Context(), ended, 100, 1, failure},
		{"the task is cancelled", over, nil, 100, 1, context.Canceled},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, tries := &Agent{log: slog.New(slog.DiscardHandler)}, 0
			err := a.retryUntil(c.ctx, c.ended, func(ctx context.Context) error {
				if at, ok := ctx.Deadline(); !ok || time.Until(at) > commandTimeout {
					t.Error("the query has no limit")
				}
				if tries++; tries <= c.fails {
					return failure
				}
				return nil
			})
			if !errors.Is(err, c.want) || tries != c.tries {
				t.Errorf("%v after %d queries, want %v after %d", err, tries, c.want, c.tries)
			}
		})
	}
}
