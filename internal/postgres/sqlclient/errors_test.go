package sqlclient

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// TestClassify has the errors of PostgreSQL for a full or broken disk, which are hard to trigger.
func TestClassify(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	answer := func(code, message string) error { return &pgconn.PgError{Code: code, Message: message} }
	cases := map[string]struct {
		ctx  context.Context
		err  error
		want error
	}{
		"full":              {t.Context(), answer("53100", `could not extend file "base/5/16384": No space left on device`), ErrDiskFull},
		"locked":            {t.Context(), answer("55P03", "canceling statement due to lock timeout"), ErrLocked},
		"standby":           {t.Context(), answer("25006", "cannot execute INSERT in a read-only transaction"), ErrReadOnly},
		"mounted read-only": {t.Context(), answer("42501", `could not open file "base/5/16384": Read-only file system`), ErrFilesystem},
		"broken disk":       {t.Context(), answer("58030", `could not read file "base/5/16384": Input/output error`), ErrFilesystem},
		"starting":          {t.Context(), answer("57P03", "the database system is starting up"), ErrUnavailable},
		"stopping":          {t.Context(), answer("57P01", "terminating connection due to administrator command"), ErrUnavailable},
		"gone":              {t.Context(), errors.New("connection reset by peer"), ErrUnavailable},
		"too slow":          {ended, answer("53100", "No space left on device"), context.Canceled},
	}
	all := []error{ErrDiskFull, ErrReadOnly, ErrLocked, ErrFilesystem, ErrUnavailable, context.Canceled}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := classify(tc.ctx, tc.err, true)
			for _, known := range all {
				if is := errors.Is(got, known); is != (known == tc.want) { //nolint:errorlint // these very ones
					t.Errorf("%v: is %q: %v", got, known, is)
				}
			}
			if !errors.Is(got, tc.err) {
				t.Errorf("%v: the answer is lost", got)
			}
		})
	}
	plain := answer("23505", "duplicate key")
	if got := classify(t.Context(), plain, false); got != plain { //nolint:errorlint // this very one
		t.Errorf("got %v", got)
	}
	mine := errors.New("the image does not have it")
	if got := classify(t.Context(), mine, false); got != mine { //nolint:errorlint // this very one
		t.Errorf("got %v, of a server that answers", got)
	}
	if classify(ended, nil, true) != nil {
		t.Error("a success became an error")
	}
}
