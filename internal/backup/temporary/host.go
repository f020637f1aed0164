package temporary

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fettle-dev/fettle/internal/backup/store"
	"github.com/fettle-dev/fettle/internal/backup/walarchive"
)

// ErrLost means that the server ended, or its container.
var ErrLost = errors.New("the temporary server ended before the verification did")

// Host serves the container of the temporary server. The fields are set before Start.
type Host struct {
	Job Job
	// Base writes the base backup, a tar archive.
	Base func(ctx context.Context, to io.Writer) error
	// WAL stores a file of the archive at a path. The error is store.ErrNotFound if the archive lacks it.
	WAL func(ctx context.Context, name, path string) error
	// Temp is a folder for one WAL file at a time.
	Temp string
	Log  *slog.Logger

	server  *http.Server
	started chan error
	done    chan struct{}
	lose    context.CancelCauseFunc

	mutex sync.Mutex
	// failed is the first error of Base or WAL, which is the cause of the error that the other container reports.
	failed error
}

// Start listens in the shared folder until Close.
func (h *Host) Start(ctx context.Context, folder string) error {
	h.started, h.done = make(chan error, 1), make(chan struct{})
	path := hostSocket(folder)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the socket of an earlier attempt: %w", err)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", path, err)
	}
	const mode = 0o660 // of the user and group that both containers run as
	if err := os.Chmod(path, mode); err != nil {
		return errors.Join(fmt.Errorf("protect %s: %w", path, err), listener.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathJob, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(h.Job) })
	mux.HandleFunc("GET "+pathBase, h.serveBase)
	mux.HandleFunc("GET "+pathWAL+"{name}", h.serveWAL)
	mux.HandleFunc("POST "+pathStarted, h.serveStarted)
	h.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(h.Log.Handler(), slog.LevelDebug)}
	go func() { _ = h.server.Serve(listener) }() // it ends with Close
	return nil
}

// Close lets the other container stop its server.
func (h *Host) Close() error {
	close(h.done)
	return h.server.Close()
}

// Wait waits until the server has started, and returns a context that ends with the server, with the cause [ErrLost]. The error is an
// *Error, an error of Base or WAL, or that of the context.
func (h *Host) Wait(ctx context.Context) (context.Context, error) {
	running, lose := context.WithCancelCause(ctx)
	h.mutex.Lock()
	h.lose = lose
	h.mutex.Unlock()
	select {
	case err := <-h.started:
		h.mutex.Lock()
		defer h.mutex.Unlock()
		if err = cmp.Or(h.failed, err); err != nil {
			return nil, err
		}
		return running, nil
	case <-running.Done():
		return nil, context.Cause(running)
	}
}

// serveStarted gets the news that the server has started, or why it did not. The response is sent when the server may stop.
func (h *Host) serveStarted(_ http.ResponseWriter, r *http.Request) {
	problem := &Error{}
	if err := json.NewDecoder(io.LimitReader(r.Body, maxBody)).Decode(problem); err != nil {
		problem.Message = "the container of the temporary server sent an invalid report"
	}
	var err error
	if problem.Message != "" {
		err = problem
	}
	select {
	case h.started <- err:
	default: // a container that restarted does not count
		return
	}
	select {
	case <-h.done:
	case <-r.Context().Done():
		h.mutex.Lock()
		defer h.mutex.Unlock()
		if h.lose != nil {
			h.lose(ErrLost)
		}
	}
}

// maxBody is the most that the Host reads from a request, in bytes.
const maxBody = 64 << 10

func (h *Host) serveBase(w http.ResponseWriter, r *http.Request) {
	if h.Base == nil {
		http.NotFound(w, r)
		return
	}
	if err := h.Base(r.Context(), w); err != nil {
		h.fail(r.Context(), err)
		panic(http.ErrAbortHandler) // the client must not take what it got for all
	}
}

func (h *Host) serveWAL(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if h.WAL == nil || !filepath.IsLocal(name) || strings.Contains(name, "/") {
		http.NotFound(w, r)
		return
	}
	folder, err := os.MkdirTemp(h.Temp, "wal-")
	if err == nil {
		defer os.RemoveAll(folder) //nolint:errcheck // the pod deletes it at the latest
		err = h.fetch(r.Context(), name, filepath.Join(folder, name))
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		http.NotFound(w, r)
	case err != nil:
		h.fail(r.Context(), err)
		http.Error(w, "see the log", http.StatusInternalServerError)
	default:
		http.ServeFile(w, r, filepath.Join(folder, name))
	}
}

// fetchPause is the time between two attempts to fetch a file.
const fetchPause = 2 * time.Second

// fetch tries until the store answers. PostgreSQL would take any other end for the end of the WAL, or give up.
func (h *Host) fetch(ctx context.Context, name, path string) error {
	for {
		err := h.WAL(ctx, name, path)
		if err == nil || errors.Is(err, store.ErrNotFound) || errors.Is(err, walarchive.ErrDamaged) || ctx.Err() != nil {
			return err
		}
		h.Log.Warn("failed to fetch WAL", "file", name, "error", err.Error())
		select {
		case <-ctx.Done():
		case <-time.After(fetchPause):
		}
	}
}

// fail keeps the first error, unless the other container broke the request off.
func (h *Host) fail(ctx context.Context, err error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.failed == nil && ctx.Err() == nil {
		h.failed = err
	}
}
