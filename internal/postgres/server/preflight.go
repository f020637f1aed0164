package server

import (
	"context"
	"regexp"
	"strconv"
	"sync"
)

// sourceSize starts a base backup and cancels it as soon as the size is known. It returns the size of the data in bytes
// without WAL, or 0 if the server does not report it. It costs the server a checkpoint.
//
// pg_basebackup would create tablespaces at the same paths as on the source. With its standard output as target, it
// rejects tablespaces before it writes anything.
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

// sizeProbe watches a base backup start, and cancels it.
type sizeProbe struct {
	cancel context.CancelFunc

	mu       sync.Mutex
	messages []byte
	written  int64
	size     int64
	done     bool
}

// probeBytes is how many bytes to read before the probe stops if the backup reports no size.
const probeBytes = 16 << 20

// Write receives the backup.
func (b *sizeProbe) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.written += int64(len(p))
	b.check()
	return len(p), nil
}

// sizeProbeStderr receives the messages of pg_basebackup.
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

// progressPattern matches, for example, "1234/56789 kB (2%), 0/1 tablespace".
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

// result returns the size and whether the backup started.
func (b *sizeProbe) result() (int64, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.size, b.done
}
