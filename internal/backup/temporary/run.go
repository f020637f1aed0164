package temporary

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
)

// Options of the container of the server.
type Options struct {
	// Folder is shared with the Host; Data is a folder for the data only. Both are absolute.
	Folder, Data string
	// Program is this program, for PostgreSQL's restore_command.
	Program string
	// Output gets the output of the server.
	Output io.Writer
	Log    *slog.Logger
	// Credential is the user that the server runs as. nil means the user of this process.
	Credential *syscall.Credential
}

// database is a server that runs.
type database interface {
	// exited is closed when the server has exited.
	exited() <-chan struct{}
	kill(ctx context.Context) error
}

// Run starts the server that the Host asks for, and stops it when the Host ends. It waits for a Host.
func Run(ctx context.Context, o Options) error {
	c := newClient(o.Folder)
	job, err := c.waitJob(ctx)
	if err != nil {
		return err
	}
	o.Log.Info("starting a temporary server", "type", job.Type, "recovery", job.Recovery != nil)
	db, err := o.start(ctx, c, job)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		o.Log.Error("failed to start the temporary server", "error", err.Error())
		problem, ok := errors.AsType[*Error](err)
		if !ok {
			problem = &Error{backupv1alpha1.ReasonRestoreFailed, "the temporary server does not start: " + err.Error()}
		}
		return errors.Join(err, c.started(ctx, *problem))
	}
	o.Log.Info("the temporary server has started")
	using, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-db.exited():
			cancel()
		case <-using.Done():
		}
	}()
	err = c.started(using, Error{})
	if using.Err() != nil && ctx.Err() == nil {
		err = errors.New("the temporary server exited: see its log")
	}
	return errors.Join(err, db.kill(context.WithoutCancel(ctx)))
}

func (o Options) start(ctx context.Context, c *client, job Job) (database, error) {
	switch job.Type {
	case backupv1alpha1.ServerPostgreSQL:
		return o.startPostgreSQL(ctx, c, job.Recovery)
	case backupv1alpha1.ServerMySQL:
		return o.startMySQL(ctx)
	}
	return nil, &Error{backupv1alpha1.ReasonBackupUnsuitable, fmt.Sprintf("backups of type %s cannot be verified", job.Type)}
}

// client talks to the Host.
type client struct{ http *http.Client }

func newClient(folder string) *client {
	return &client{&http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", hostSocket(folder))
	}}}}
}

// hostPoll is the time between two attempts to reach the Host.
const hostPoll = 200 * time.Millisecond

// waitJob waits for the Host, which may have to read the store first.
func (c *client) waitJob(ctx context.Context) (job Job, err error) {
	for {
		err = c.get(ctx, pathJob, func(body io.Reader) error { return json.NewDecoder(body).Decode(&job) })
		if err == nil {
			return job, nil
		}
		select {
		case <-ctx.Done():
			return job, ctx.Err()
		case <-time.After(hostPoll):
		}
	}
}

// errNoFile means that the archive lacks a file.
var errNoFile = errors.New("the archive does not have the file")

func (c *client) get(ctx context.Context, path string, read func(io.Reader) error) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://host"+path, nil)
	if err != nil {
		return fmt.Errorf("make the request: %w", err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // it is only read
	switch response.StatusCode {
	case http.StatusOK:
		return read(response.Body)
	case http.StatusNotFound:
		return errNoFile
	}
	return fmt.Errorf("get %s: %s", path, response.Status)
}

// started reports that the server has started, or why it did not, and waits until it may stop.
func (c *client) started(ctx context.Context, problem Error) error {
	body, err := json.Marshal(problem)
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://host"+pathStarted, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make the request: %w", err)
	}
	response, err := c.http.Do(request)
	if err == nil {
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
	return nil // without a response, the Host has ended
}

// Fetch is PostgreSQL's restore_command: it fetches a file of the archive. found is false if the archive lacks it.
func Fetch(ctx context.Context, folder, name, path string) (found bool, err error) {
	err = newClient(folder).get(ctx, pathWAL+name, func(body io.Reader) error {
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, body)
		return errors.Join(err, f.Close())
	})
	if errors.Is(err, errNoFile) {
		return false, nil
	}
	return err == nil, err
}
