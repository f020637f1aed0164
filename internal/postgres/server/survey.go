package server

import (
	"context"
	"regexp"
	"strconv"
	"sync"
)

// survey begins a backup to see how large it is and that it has no tablespaces, and ends it at once. It returns the size of the
// data in bytes, without the log; 0 where the server does not tell. It costs the server a checkpoint.
//
// pg_basebackup would make tablespaces at the very paths that they have on the source. One that is to write to its standard
// output refuses them before it writes anything.
func (s *Server) survey(ctx context.Context, e External) (int64, error) {
	bounded, cancel := context.WithTimeout(ctx, surveyTime)
	defer cancel()
	begun := &beginning{end: cancel}
	_, err := s.tool(bounded, toolOptions{quiet: true, password: e.Password, output: begun, said: (*estimate)(begun)}, "pg_basebackup",
		"--pgdata=-", "--format=tar", "--wal-method=none", "--checkpoint=fast", "--no-manifest", "--progress", "--no-password",
		"--dbname="+e.ConnInfo(e.ApplicationName, false))
	if size, ok := begun.result(); ok && ctx.Err() == nil {
		return size, nil
	}
	if err == nil {
		return 0, nil
	}
	return 0, e.explain(err)
}

// beginning watches a backup begin, and ends it.
type beginning struct {
	end context.CancelFunc

	mu      sync.Mutex
	said    []byte
	written int64
	size    int64
	seen    bool
}

// enough is how many bytes of a backup are waited for that does not tell its size.
const enough = 16 << 20

// Write receives the backup.
func (b *beginning) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.written += int64(len(p))
	b.judge()
	return len(p), nil
}

// estimate receives what pg_basebackup says of it.
type estimate beginning

func (e *estimate) Write(p []byte) (int, error) {
	b := (*beginning)(e)
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.said) < maxTail {
		b.said = append(b.said, p...)
	}
	b.judge()
	return len(p), nil
}

// progress is such as "1234/56789 kB (2%), 0/1 tablespace".
var progress = regexp.MustCompile(`\d+/(\d+) kB \(`)

func (b *beginning) judge() {
	if match := progress.FindSubmatch(b.said); match != nil && b.written > 0 {
		kilobytes, err := strconv.ParseInt(string(match[1]), 10, 64)
		if err == nil {
			b.size = kilobytes << 10
		}
		b.seen = true
	}
	if b.seen = b.seen || b.written >= enough; b.seen {
		b.end()
	}
}

// result is the size, and whether the backup began.
func (b *beginning) result() (int64, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.size, b.seen
}
