package agent

import (
	"context"
	"errors"
	"testing"
)

// TestRetryRewind_untouched tells whether the data may be relied on after a rewind that failed: if no try got to change anything, whatever
// the last one says.
func TestRetryRewind_untouched(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // without pauses
	gone := errors.New(`rewind to db-0: pg_rewind: error: connection to server at "10.0.0.1", port 5432 failed: Connection refused`)
	half := errors.New(`rewind to db-0: pg_rewind: error: could not fetch remote file "x": server closed the connection`)
	for _, c := range []struct {
		name      string
		tries     []error
		count     int
		untouched bool
		fails     bool
	}{
		{"at once", []error{nil}, 1, false, false},
		{"later", []error{gone, half, nil}, 3, false, false},
		{"never reached", []error{gone, gone, gone}, 3, true, true},
		{"the source went away in the middle", []error{half, gone, gone}, 3, false, true},
		{"and for a moment before that", []error{gone, half, gone}, 3, false, true},
		{"reached at last", []error{gone, gone, half}, 3, false, true},
	} {
		count := 0
		untouched, err := retryRewind(ctx, func() error { count++; return c.tries[count-1] })
		if count != c.count || untouched != c.untouched || (err != nil) != c.fails {
			t.Errorf("%s: %d tries, untouched %v, %v", c.name, count, untouched, err)
		}
	}
}
