package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fettle-dev/fettle/internal/backup/store"
	"github.com/fettle-dev/fettle/internal/backup/walarchive"
	"github.com/fettle-dev/fettle/internal/postgres/walfile"
)

// archiveCommand is PostgreSQL's archive_command; "" without a program to run.
func (o *Options) archiveCommand() string { return o.walCommand("archive %f") }

// restoreCommand is PostgreSQL's restore_command, for a recovery whose files walSource fetches.
func (o *Options) restoreCommand() string { return o.walCommand("fetch %f %p") }

func (o *Options) walCommand(arguments string) string {
	if o.WALProgram == "" {
		return ""
	}
	quote := func(path string) string { // for the shell; % is a variable of PostgreSQL's
		return "'" + strings.NewReplacer(`'`, `'\''`, `%`, `%%`).Replace(path) + "'"
	}
	return "exec " + quote(o.WALProgram) + " " + quote(o.Run) + " " + arguments
}

// walHandler serves the socket for PostgreSQL's archive_command and restore_command.
func walHandler(archive func(context.Context, string) error, fetch func(context.Context, walfile.Request) error) http.Handler {
	mux := http.NewServeMux()
	serve := func(path string, do func(context.Context, walfile.Request) error) {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			file, ok := decode[walfile.Request](w, r)
			if !ok {
				return
			}
			if err := do(r.Context(), file); err != nil {
				http.Error(w, oneLine(err.Error()), walfile.CodeOf(err))
			}
		})
	}
	serve(walfile.PathArchive, func(ctx context.Context, file walfile.Request) error { return archive(ctx, file.Name) })
	serve(walfile.PathFetch, fetch)
	return mux
}

// fetchWAL fetches a file for a recovery. The error is walfile.ErrNoFile only if the store has answered that it does not have it.
func (a *Agent) fetchWAL(ctx context.Context, file walfile.Request) error {
	source := a.walSource.Load()
	if source == nil {
		return errors.New("no recovery from an archive is running")
	}
	if relative, err := filepath.Rel(a.options.Volume, file.Path); err != nil || !filepath.IsLocal(relative) || filepath.Base(filepath.Dir(relative)) != "pg_wal" {
		return fmt.Errorf("%s is not in pg_wal", file.Path)
	}
	return fetchUntil(ctx, a.log, source, file)
}

// fetchUntil tries until the store answers. PostgreSQL would take any other end for the end of the WAL, or give up.
func fetchUntil(ctx context.Context, log *slog.Logger, source *walarchive.Fetcher, file walfile.Request) error {
	for pause := archivePause; ; pause = min(2*pause, archivePauseMax) {
		err := source.Get(ctx, file.Name, file.Path)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, store.ErrNotFound):
			return walfile.ErrNoFile
		case ctx.Err() != nil:
			return walfile.ErrStopping
		case errors.Is(err, walarchive.ErrDamaged):
			return err
		}
		log.Warn("failed to fetch WAL", "file", file.Name, "error", oneLine(err.Error()))
		sleep(ctx, pause)
	}
}

// listenSocket serves the socket until the context ends.
func listenSocket(ctx context.Context, log *slog.Logger, path string, handler http.Handler) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the socket of an earlier agent: %w", err)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(fmt.Errorf("protect %s: %w", path, err), listener.Close())
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	go func() {
		if err := server.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
			log.Error("HTTP server failed", "address", path, "error", err.Error())
		}
	}()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return nil
}
