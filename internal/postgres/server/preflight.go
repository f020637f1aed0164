package server

import (
	"context"
	"regexp"
	"strconv"
	"sync"
)

// sourceSize begins a backup to see how large it is and that it has no tablespaces, and ends it at once. It returns the size of the
// data in bytes, without the log; 0 where the server does not tell. It costs the server a checkpoint.
//
// pg_basebackup would make tablespaces at the very paths that they have on the source. One that is to write to its standard
// output refuses them before it writes anything.
func (s *Server) sourceSize(ctx context.Context, e External) (int64, error) {
	bounded, cancel := context.WithTimeout(ctx, preflightTimeout)
	defer cancel()
	probe := &sizeProbe{cancel: cancel}
	_, err := s.tool(bounded, toolOptions{quiet: true, password: e.Password, stdout: probe, stderr: (*sizeProbeStderr)(probe)}, "pg_basebackup",
		"--pgdata=-", "--format=tar", "--wal-method=none", "--checkpoint=fast", "--no-manifest", "--progress", "--no-password",
		"--dbname="+e.ConnInfo(e.ApplicationName, false))
	if size, ok := probe.result(); ok && ctx.Err() == nil {
		return size, nil
	}
	if err == nil {
		return 0, nil
	}
	return 0, e.classify(err)
}

// sizeProbe watches a backup begin, and ends it.
type sizeProbe struct {
	cancel context.CancelFunc

	mu       sync.Mutex
	messages []byte
	written  int64
	size     int64
	done     bool
}

// probeBytes is how many bytes of a backup are waited for that does not tell its size.
const probeBytes = 16 << 20

// Write receives the backup.
func (b *sizeProbe) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.written += int64(len(p))
	b.check()
	return len(p), nil
}

// sizeProbeStderr receives what pg_basebackup says of it.
type sizeProbeStderr sizeProbe

func (e *sizeProbeStderr) Write(p []byte) (int, error) {
	b := (*sizeProbe)(e)
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.messages) < maxTail {
		b.messages = append(b.messages, p...)
	}
	b.check()
	return len(p), nil
}

// progressPattern is such as "1234/56789 kB (2%), 0/1 tablespace".
var progressPattern = regexp.MustCompile(`\d+/(\d+) kB \(`)

func (b *sizeProbe) check() {
	if match := progressPattern.FindSubmatch(b.messages); match != nil && b.written > 0 {
		kilobytes, err := strconv.ParseInt(string(match[1]), 10, 64)
		if err == nil {
			b.size = kilobytes << 10
		}
		b.done = true
	}
	if b.done = b.done || b.written >= probeBytes; b.done {
		b.cancel()
	}
}

// result is the size, and whether the backup began.
func (b *sizeProbe) result() (int64, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.size, b.done
}
