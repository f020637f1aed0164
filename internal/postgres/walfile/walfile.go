// Package walfile is the API of the agent for PostgreSQL's archive_command and restore_command, and their program. It imports only
// packages of the standard library, as PostgreSQL starts the program for each WAL file.
package walfile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"
)

// Paths of the API on the socket in the run directory. Only the user of the container can connect to it.
const (
	PathArchive = "/v1/archive"
	PathFetch   = "/v1/fetch"
)

// Socket is the path of the socket in a run directory.
func Socket(runDir string) string { return filepath.Join(runDir, "agent.sock") }

// Request names a file of pg_wal.
type Request struct {
	Name string `json:"name"`
	// Path is where to fetch it to, absolute.
	Path string `json:"path,omitempty"`
}

// Results of a request on the socket, besides success.
var (
	// ErrNoFile means that the store does not have the file.
	ErrNoFile = errors.New("the store does not have the file")
	// ErrStopping means that PostgreSQL or the agent is stopping.
	ErrStopping = errors.New("the instance is stopping")
)

// CodeOf is the HTTP status for the result of a request on the socket.
func CodeOf(err error) int {
	switch {
	case err == nil:
		return http.StatusOK
	case errors.Is(err, ErrNoFile):
		return http.StatusNotFound
	case errors.Is(err, ErrStopping):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// Program is the file name of the program, beside that of the agent.
const Program = "fettle-wal"

// Exit codes of the program. After a code above 128 PostgreSQL tries again and draws no conclusion: it neither counts a failure to
// archive nor takes the archive for ended.
const (
	ExitFailed = 1
	ExitNoFile = 1
	ExitAgain  = 255
)

// Run runs the program and returns its exit code. args are those of the usage message.
func Run(ctx context.Context, args []string) (code int, err error) {
	switch {
	case len(args) == 3 && args[1] == "archive":
		err = send(ctx, Socket(args[0]), PathArchive, Request{Name: args[2]})
		if err != nil && !errors.Is(err, ErrStopping) {
			return ExitFailed, err
		}
	case len(args) == 4 && args[1] == "fetch":
		path, absErr := filepath.Abs(args[3])
		if absErr != nil {
			return ExitAgain, absErr
		}
		err = send(ctx, Socket(args[0]), PathFetch, Request{Name: args[2], Path: path})
		if errors.Is(err, ErrNoFile) {
			return ExitNoFile, fmt.Errorf("%s: %w", args[2], err)
		}
	default:
		err = errors.New("usage: fettle-wal RUN-DIR archive NAME | fettle-wal RUN-DIR fetch NAME PATH")
	}
	if err != nil {
		return ExitAgain, err
	}
	return 0, nil
}

// send sends a request to the agent's socket and waits for the result. Without an agent, the error is ErrStopping: PostgreSQL does not
// outlive it.
func send(ctx context.Context, socket, path string, file Request) error {
	body, err := json.Marshal(file)
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://agent"+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make the request: %w", err)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStopping, err)
	}
	defer response.Body.Close() //nolint:errcheck // it is only read
	content, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrStopping, err)
	case response.StatusCode == http.StatusOK:
		return nil
	case response.StatusCode == http.StatusNotFound:
		return ErrNoFile
	case response.StatusCode == http.StatusServiceUnavailable:
		return ErrStopping
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(content)), "\n")
	return errors.New(line)
}
