package main

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestRetry_repeatsUntilSuccess(t *testing.T) {
	calls := 0
	err := retry(t.Context(), time.Minute, time.Second, func(context.Context) error {
		calls++
		if calls < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil || calls != 3 {
		t.Errorf("%d calls, error %v", calls, err)
	}
}

func TestRetry_endsWithLastError(t *testing.T) {
	started, failure := time.Now(), errors.New("down")
	err := retry(t.Context(), 3*retryPause, time.Second, func(context.Context) error { return failure })
	if !errors.Is(err, failure) {
		t.Errorf("error %v", err)
	}
	if took := time.Since(started); took > 30*retryPause {
		t.Errorf("it took %s", took)
	}
}

func TestRetry_boundsAttempts(t *testing.T) {
	calls := 0
	err := retry(t.Context(), time.Minute, time.Millisecond, func(ctx context.Context) error {
		if calls++; calls == 2 {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	})
	if err != nil || calls != 2 {
		t.Errorf("%d calls, error %v", calls, err)
	}
}

func TestNewOrder(t *testing.T) {
	for name, c := range map[string]struct {
		key     string
		request request
		cents   int64
	}{
		"accepted":         {"a-1_B", request{"espresso", 2}, 2 * 2490},
		"no key":           {"", request{"espresso", 1}, 0},
		"key of bad form":  {"a b", request{"espresso", 1}, 0},
		"nothing":          {"a", request{"espresso", 0}, 0},
		"too many":         {"a", request{"espresso", maxQuantity + 1}, 0},
		"unknown products": {"a", request{"tea", 1}, 0},
	} {
		o, err := newOrder(c.key, c.request)
		if o.Cents != c.cents || (err == nil) != (c.cents > 0) {
			t.Errorf("%s: %+v, error %v", name, o, err)
		}
	}
}
