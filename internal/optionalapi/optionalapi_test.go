package optionalapi

import (
	"testing"
	"time"
)

func TestRetry_bounded(t *testing.T) {
	for age, want := range map[time.Duration]time.Duration{-1: time.Second, 0: time.Second, time.Minute: time.Minute, time.Hour: 10 * time.Minute} {
		if got := retry(age); got != want {
			t.Errorf("%s after the definition was created: %s, want %s", age, got, want)
		}
	}
}
