package runner

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/job"
	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

// identifyTimeout bounds a connection and a few queries.
const identifyTimeout = 15 * time.Second

// estimatePause is the time between two looks for the estimated size of a base backup. There is none before the checkpoint has ended.
const estimatePause = time.Second

// application is the application_name of all connections.
const application = "fettle-backup"

// replication is an instance of a PostgreSQL of Fettle, and the certificate to log in to it. All connections go to the same
// address: behind the name of a Service are several instances.
type replication struct {
	config.Upstream
	remove func()
}

// identity is the state of an instance.
type identity struct {
	systemID, version string
	timeline          wal.Timeline
	position          wal.LSN
	segmentSize       int64
}

// newReplication returns the first instance behind the hosts that answers.
func (r *run) newReplication(ctx context.Context, hosts ...string) (*replication, error) {
	certificates, remove, err := r.certificates()
	if err != nil {
		return nil, err
	}
	server := r.config.Backup.Server
	var failures []error
	for _, host := range hosts {
		addresses, err := net.DefaultResolver.LookupHost(ctx, host)
		if err != nil {
			failures = append(failures, err)
		}
		for _, address := range addresses {
			candidate := &replication{Upstream: certificates, remove: remove}
			candidate.Host, candidate.Address, candidate.Port = host, address, int(server.Port)
			if _, err = candidate.identify(ctx); err == nil {
				r.Log.Info("copying an instance", "host", host, "address", address)
				return candidate, nil
			}
			failures = append(failures, err)
		}
	}
	remove()
	return nil, replicationFailure(errors.Join(failures...))
}

// replicationFailure says why no instance can be copied.
func replicationFailure(err error) error {
	if rejected, ok := errors.AsType[*pgconn.PgError](err); ok {
		return fail(backupv1alpha1.ReasonServerRejected, "the PostgreSQL rejects the replication connection: %s (SQLSTATE %s)", rejected.Message, rejected.Code)
	}
	return fail(backupv1alpha1.ReasonServerUnreachable, "no instance of the PostgreSQL answers: see its conditions: %w", err)
}

// certificates copies the client certificate to files that only this user can read, as libpq requires.
func (r *run) certificates() (out config.Upstream, remove func(), err error) {
	folder, err := os.MkdirTemp(r.Temp, "replication-")
	if err != nil {
		return out, nil, fmt.Errorf("copy the client certificate: %w", err)
	}
	remove = func() { _ = os.RemoveAll(folder) } // it is in memory
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		content, err := os.ReadFile(filepath.Join(r.path(job.DirReplication), name))
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, name), content, 0o600)
		}
		if err != nil {
			remove()
			return out, nil, fmt.Errorf("copy the client certificate: %w", err)
		}
	}
	out.CertFile, out.KeyFile, out.CAFile = filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key"), filepath.Join(folder, "ca.crt")
	return out, remove, nil
}

// baseBackup writes a base backup without WAL to its standard output.
func (p *replication) baseBackup(options ...string) program {
	return program{name: pgBasebackup, args: append([]string{
		"--pgdata=-", "--format=tar", "--wal-method=none", "--checkpoint=fast", "--no-password", "--verbose", "--dbname=" + p.CopyConnInfo(application, ""),
	}, options...)}
}

// identify queries the instance over a replication connection.
func (p *replication) identify(ctx context.Context) (out identity, err error) {
	ctx, cancel := context.WithTimeout(ctx, identifyTimeout)
	defer cancel()
	conn, err := p.connect(ctx, "")
	if err != nil {
		return out, err
	}
	defer conn.Close(ctx) //nolint:errcheck // all results were read
	system, err := row(ctx, conn, "IDENTIFY_SYSTEM", 3)
	if err != nil {
		return out, err
	}
	version, err := row(ctx, conn, "SHOW server_version", 1)
	if err != nil {
		return out, err
	}
	size, err := row(ctx, conn, "SHOW wal_segment_size", 1)
	if err != nil {
		return out, err
	}
	timeline, err := strconv.ParseUint(system[1], 10, 32)
	if err != nil {
		return out, fmt.Errorf("identify %s: timeline: %w", p.Host, err)
	}
	out.systemID, out.timeline = system[0], wal.Timeline(timeline)
	out.version, _, _ = strings.Cut(version[0], " ") // a distribution's own name for it follows
	if out.position, err = wal.ParseLSN(system[2]); err != nil {
		return out, fmt.Errorf("identify %s: %w", p.Host, err)
	}
	out.segmentSize, err = parseSize(size[0])
	return out, err
}

// backupSize waits until the server has estimated the size of the base backup that it sends, in bytes. pg_basebackup always asks for it. A
// role sees its own sessions.
func (p *replication) backupSize(ctx context.Context) (int64, error) {
	conn, err := p.connect(ctx, "postgres") // which pg_hba.conf permits for pg_rewind
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx) //nolint:errcheck // nothing is written
	for {
		found, err := row(ctx, conn, `select coalesce(max(backup_total), 0) from pg_stat_progress_basebackup join pg_stat_activity using (pid)
			where application_name = '`+application+`'`, 1)
		if err != nil {
			return 0, err
		}
		if size, err := strconv.ParseInt(found[0], 10, 64); err != nil || size > 0 {
			return size, err
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(estimatePause):
		}
	}
}

// connect opens a connection like that of pg_basebackup: to a database, or for replication without one.
func (p *replication) connect(ctx context.Context, database string) (*pgconn.PgConn, error) {
	settings, err := p.settings()
	if err != nil {
		return nil, err
	}
	if settings.Database = database; database == "" {
		settings.RuntimeParams["replication"] = "true"
	}
	conn, err := pgconn.ConnectConfig(ctx, settings)
	if err != nil {
		return nil, fmt.Errorf("connect to %s (%s): %w", p.Host, p.Address, err)
	}
	return conn, nil
}

// settings are those of a connection like that of pg_basebackup. The certificate must be for the host, whatever its address.
func (p *replication) settings() (*pgconn.Config, error) {
	pair, err := tls.LoadX509KeyPair(p.CertFile, p.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("client certificate: %w", err)
	}
	settings, err := pgconn.ParseConfig(fmt.Sprintf("host=%s port=%d user=%s sslmode=verify-full sslrootcert='%s' passfile=/dev/null",
		p.Host, p.Port, config.ReplicationUser, p.CAFile))
	if err != nil {
		return nil, fmt.Errorf("connection to %s: %w", p.Host, err)
	}
	settings.Fallbacks, settings.Host = nil, p.Address
	settings.TLSConfig.Certificates, settings.TLSConfig.MinVersion = []tls.Certificate{pair}, tls.VersionTLS12
	settings.RuntimeParams = map[string]string{"application_name": application}
	return settings, nil
}

// row runs a query that returns one row.
func row(ctx context.Context, conn *pgconn.PgConn, query string, columns int) ([]string, error) {
	results, err := conn.Exec(ctx, query).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	if len(results) != 1 || len(results[0].Rows) != 1 || len(results[0].Rows[0]) < columns {
		return nil, fmt.Errorf("%s: got no row of %d columns", query, columns)
	}
	out := make([]string, 0, columns)
	for _, value := range results[0].Rows[0][:columns] {
		out = append(out, string(value))
	}
	return out, nil
}

// parseSize parses a size such as 16MB.
func parseSize(text string) (int64, error) {
	number := strings.TrimRight(text, "BGMk")
	factor, known := map[string]int64{"MB": 1 << 20, "GB": 1 << 30, "kB": 1 << 10, "B": 1}[text[len(number):]]
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || !known {
		return 0, fmt.Errorf("wal_segment_size %q has no known unit", text)
	}
	return n * factor, nil
}
