package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/job"
)

// server is a type of database server.
type server interface {
	// extension of the dumps, such as ".dump".
	extension() string
	// inspect logs in to a database. The error is an *Error.
	inspect(ctx context.Context, database job.Database) (info, error)
	// programs returns the versions of the programs for dumps. They must not be older than a server or dump.
	programs(ctx context.Context, atLeast string) (map[string]string, error)
	dump(database job.Database) source
	// complete checks a dump, and reads it to its end or as far as its check needs it.
	complete(ctx context.Context, dump io.Reader) error

	// prepare checks a whole dump before the target is touched. It returns its table of contents, if the type of server has one.
	prepare(ctx context.Context, dump io.Reader) (toc string, err error)
	// clear deletes everything in a database.
	clear(ctx context.Context, database job.Database) error
	// restore reads a dump of the database named from into an empty database.
	restore(ctx context.Context, from string, to job.Database, toc string, dump io.Reader) error
}

// info is the state of a database.
type info struct {
	// version of the server.
	version string
	// size in bytes, an estimate.
	size int64
	// objects is the number of tables and other objects of users.
	objects int64
	// missing is true if the database does not exist, on a server that creates databases at the first write.
	missing bool
}

// newServer returns the type of a server, and completes its configuration.
func (r *run) newServer(config *job.Server) (server, error) {
	if err := r.readURI(config); err != nil {
		return nil, err
	}
	s := *config
	switch s.Type {
	case backupv1alpha1.ServerPostgreSQL:
		return &postgresql{run: r, server: s}, nil
	case backupv1alpha1.ServerMySQL:
		return &mysqlServer{run: r, server: s}, nil
	case backupv1alpha1.ServerMongoDB:
		return &mongodb{run: r, server: s}, nil
	}
	return nil, refuse(backupv1alpha1.ReasonBackupUnsuitable, "server type %q is unknown", s.Type)
}

// login is a user name and a password. Both may be empty.
type login struct{ user, password string }

// login reads the login of a database.
func (r *run) login(s job.Server, database job.Database) (l login, err error) {
	if s.FromURI {
		return r.uri.login, nil
	}
	l.user = s.Username
	if database.Login < 0 {
		return l, nil
	}
	folder := r.path(job.DirLogin(database.Login))
	read := func(name string) string {
		content, readErr := os.ReadFile(filepath.Join(folder, name))
		if readErr != nil && !errors.Is(readErr, fs.ErrNotExist) {
			err = errors.Join(err, readErr)
		}
		return string(content)
	}
	if l.user == "" {
		l.user = read("username")
	}
	l.password = read("password")
	if err != nil {
		return l, fmt.Errorf("read the login of database %s: %w", database.Name, err)
	}
	if l.password == "" && s.Type != backupv1alpha1.ServerMongoDB {
		return l, refuse(backupv1alpha1.ReasonSourceSecretMissing, "the Secret with the login of database %s has no password", database.Name)
	}
	r.secrets.add(l.password)
	return l, nil
}

// caFile is the file with the CA certificates of the server, or "".
func (r *run) caFile(s job.Server) string {
	if !s.VerifyCA {
		return ""
	}
	return filepath.Join(r.path(job.DirServerCA), "ca.crt")
}

// secretFile writes a file with a password, readable by this user only. remove deletes it.
func (r *run) secretFile(content string) (path string, remove func(), err error) {
	file, err := os.CreateTemp(r.Temp, "login-") // its mode is 0600
	if err != nil {
		return "", nil, fmt.Errorf("write a file with the login: %w", err)
	}
	_, err = file.WriteString(content)
	if err := errors.Join(err, file.Close()); err != nil {
		_ = os.Remove(file.Name())
		return "", nil, fmt.Errorf("write a file with the login: %w", err)
	}
	return file.Name(), func() { _ = os.Remove(file.Name()) }, nil
}
