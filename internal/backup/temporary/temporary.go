// Package temporary runs the database server that a backup is verified in. The server is in a container of its own, which has neither
// the keys of the store nor the token of the pod: what a crafted backup or a query makes the server do cannot reach them.
//
// Both containers share one folder. A [Host], in the container with the keys, listens on a socket there. [Run], in the other container,
// asks it what to start, and fetches the files of a Physical backup from it. The server listens on a socket in the same folder only.
package temporary

import (
	"path/filepath"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

// Paths of the Host's API.
const (
	pathJob     = "/job"
	pathBase    = "/base"
	pathWAL     = "/wal/"
	pathStarted = "/started"
)

// hostSocket is the socket of the Host.
func hostSocket(folder string) string { return filepath.Join(folder, "verify.sock") }

// PostgreSQLFolder is the folder of the socket of PostgreSQL, in the shared folder.
func PostgreSQLFolder(folder string) string { return filepath.Join(folder, "postgresql") }

// MySQLSocket is the socket of MySQL, in the shared folder.
func MySQLSocket(folder string) string { return filepath.Join(folder, "mysql", "socket") }

// Job is what to start.
type Job struct {
	// Type of the server: postgresql or mysql.
	Type backupv1alpha1.ServerType `json:"type"`
	// Recovery is the base backup to start a PostgreSQL from; nil for an empty server.
	Recovery *Recovery `json:"recovery,omitempty"`
}

// Recovery is a base backup and the WAL to replay: all of one timeline.
type Recovery struct {
	// What names the backup in messages.
	What string `json:"what"`
	// Size of the base backup in bytes.
	Size int64 `json:"size"`
	// Major is the major version of the PostgreSQL.
	Major    int          `json:"major"`
	Timeline wal.Timeline `json:"timeline"`
}

// Error is why the server did not start.
type Error struct {
	// Reason is one of the API's reasons.
	Reason string `json:"reason"`
	// Message says what is wrong and what to do.
	Message string `json:"message"`
}

func (e *Error) Error() string { return e.Message }
