package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/job"
	"github.com/fettle-dev/fettle/internal/backup/manifest"
	"github.com/fettle-dev/fettle/internal/backup/recovery"
	"github.com/fettle-dev/fettle/internal/backup/temporary"
	"github.com/fettle-dev/fettle/internal/backup/walarchive"
)

// verifier is a temporary server that a backup is verified in.
type verifier interface {
	server
	// setUp creates an empty database, and the role that restores into it.
	setUp(ctx context.Context, database job.Database, toc string) error
	// databases are those that the server has after a restore of files.
	databases(ctx context.Context) ([]string, error)
	// count reads all tables of a database.
	count(ctx context.Context, database string) (tables, rows int64, err error)
	// query returns the first value of the first row as text; nil if it is NULL or if there is no row. It runs as a role that can only
	// read.
	query(ctx context.Context, database, sql string) (*string, error)
}

func (r *run) newVerifier(m *manifest.Manifest) (verifier, error) {
	switch folder := r.temporaryFolder(); backupv1alpha1.ServerType(m.Type) {
	case backupv1alpha1.ServerPostgreSQL:
		return newTemporaryPostgreSQL(r, folder), nil
	case backupv1alpha1.ServerMySQL:
		return newTemporaryMySQL(r, folder), nil
	case backupv1alpha1.ServerMongoDB:
	}
	return nil, refuse(backupv1alpha1.ReasonBackupUnsuitable, "backups of type %s cannot be verified: remove verify, or restore into a server", m.Type)
}

func (r *run) temporaryFolder() string { return cmp.Or(r.Temporary, r.path(job.DirTemporary)) }

// verifyBackup restores a backup into the temporary server, and reads it.
func (r *run) verifyBackup(ctx context.Context, m *manifest.Manifest, result *backupv1alpha1.RunResult) error {
	target, err := r.newVerifier(m)
	if err != nil {
		return err
	}
	host := &temporary.Host{Job: temporary.Job{Type: backupv1alpha1.ServerType(m.Type)}, Temp: r.Temp, Log: r.Log}
	if m.Physical != nil {
		fetcher, err := r.serveFiles(ctx, m, host)
		if err != nil {
			return err
		}
		defer fetcher.Close() //nolint:errcheck // the pod deletes the folder at the latest
		defer r.progress.Start(ctx, m.Parts[0].RawSize)()
	}
	if err := host.Start(ctx, r.temporaryFolder()); err != nil {
		return err
	}
	defer host.Close() //nolint:errcheck // the other container sees the end
	running, err := host.Wait(ctx)
	if err == nil {
		err = r.verifyIn(running, m, target, result)
		if err != nil && running.Err() != nil {
			err = context.Cause(running) // the others follow from it
		}
	}
	problem := &temporary.Error{}
	switch {
	case errors.Is(err, temporary.ErrLost):
		return fail(backupv1alpha1.ReasonRestoreFailed,
			"%w: raise pod.resources.limits.memory or storage, or read the logs of the container database of the pod", err)
	case errors.As(err, &problem):
		return fail(problem.Reason, "%s", problem.Message)
	}
	return err
}

// serveFiles lets the temporary server fetch the base backup and the WAL up to the end of the archive.
func (r *run) serveFiles(ctx context.Context, m *manifest.Manifest, host *temporary.Host) (*walarchive.Fetcher, error) {
	base, ok := m.Base()
	if !ok {
		return nil, refuse(backupv1alpha1.ReasonBackupDamaged, "the manifest of %s has no valid positions: restore another run", m.Run)
	}
	archived := walarchive.New(r.store, base.SystemID)
	plan, err := choosePlan(ctx, archived, base)
	if err != nil {
		return nil, err
	}
	fetcher, err := walarchive.NewFetcher(archived, r.Temp+"/wal")
	if err != nil {
		return nil, err
	}
	host.Job.Recovery = &temporary.Recovery{
		What: "backup " + m.Run, Size: m.Parts[0].RawSize, Major: major(m.ServerVersion), Timeline: plan.Timeline,
	}
	host.WAL = fetcher.Get
	host.Base = func(ctx context.Context, to io.Writer) error {
		part := m.Parts[0]
		body, dump, err := r.open(ctx, m, part)
		if err != nil {
			return err
		}
		defer body.Close() //nolint:errcheck // it is only read
		// A crafted part may grow without end; the volume has room for RawSize.
		if _, err := io.Copy(to, r.progress.Reader(io.LimitReader(dump, part.RawSize))); err != nil {
			return damaged(part, err)
		}
		return damaged(part, dump.Verify(part.Size, part.SHA256))
	}
	return fetcher, nil
}

// choosePlan plans a recovery to the end of the archive. Uploads overtake each other: a gap counts if it stays.
func choosePlan(ctx context.Context, archived *walarchive.Archive, base recovery.Base) (recovery.Plan, error) {
	for began := time.Now(); ; {
		list, err := archived.Recoverable(ctx, base.SegmentSize)
		if err != nil {
			return recovery.Plan{}, err
		}
		plan, err := recovery.Choose([]recovery.Base{base}, list, recovery.Target{Run: base.Run}, time.Now())
		if err == nil {
			return plan, nil
		}
		problem, ok := errors.AsType[*recovery.Error](err)
		if !ok {
			return plan, err
		}
		if time.Since(began) > gapWait {
			return plan, fail(problem.Reason, "%s", problem.Message)
		}
		select {
		case <-ctx.Done():
			return plan, context.Cause(ctx)
		case <-time.After(walPoll):
		}
	}
}

// verifyIn restores a Logical backup into a server that runs, and reads what it has.
func (r *run) verifyIn(ctx context.Context, m *manifest.Manifest, target verifier, result *backupv1alpha1.RunResult) error {
	databases, err := r.fill(ctx, m, target)
	if err != nil {
		return err
	}
	for _, database := range databases {
		tables, rows, err := target.count(ctx, database)
		if err != nil {
			return err
		}
		r.Log.Info("read all tables", "database", database, "tables", tables, "rows", rows)
		result.Tables, result.Rows = result.Tables+tables, result.Rows+rows
	}
	return r.ask(ctx, m, target, databases)
}

// fill restores a Logical backup, and returns the names of the databases of any backup.
func (r *run) fill(ctx context.Context, m *manifest.Manifest, target verifier) (databases []string, err error) {
	if m.Physical != nil {
		return target.databases(ctx)
	}
	if _, err := target.programs(ctx, m.Programs["pg_dump"]); err != nil {
		return nil, err
	}
	var all []assignment
	for _, part := range m.Parts {
		a := assignment{part: part, to: job.Database{Name: part.Database, Login: -1}}
		if a.toc, err = r.verify(ctx, m, target, part); err != nil {
			return nil, err
		}
		if err := target.setUp(ctx, a.to, a.toc); err != nil {
			return nil, err
		}
		all, databases = append(all, a), append(databases, part.Database)
	}
	if err := r.restoreAll(ctx, m, target, all); err != nil {
		return nil, err
	}
	for _, a := range all {
		info, err := target.inspect(ctx, a.to)
		if err != nil {
			return nil, err
		}
		if a.part.Objects > 0 && info.objects == 0 {
			return nil, refuse(backupv1alpha1.ReasonVerificationFailed, "database %s had %d tables or other objects when it was backed up, and the backup has none",
				a.to.Name, a.part.Objects)
		}
	}
	return databases, nil
}

// ask runs the query, and compares its first value.
func (r *run) ask(ctx context.Context, m *manifest.Manifest, target verifier, databases []string) error {
	t := r.config.Restore.Temporary
	if t.Query == "" {
		return nil
	}
	database := t.Database
	if database == "" && m.Physical == nil {
		database = m.Parts[0].Database
	} else if database == "" {
		database = firstDatabase(databases)
	}
	if !slices.Contains(databases, database) {
		return refuse(backupv1alpha1.ReasonVerificationFailed, "the backup has no database %s, in which query has to run", database)
	}
	value, err := target.query(ctx, database, t.Query)
	if err != nil {
		return err
	}
	if expected(value, t.Expect) {
		return nil
	}
	want := "a value other than false, 0 and NULL"
	if t.Expect != nil {
		want = fmt.Sprintf("%q", *t.Expect)
	}
	return refuse(backupv1alpha1.ReasonVerificationFailed, "query in database %s: the first value is %s, and %s is expected", database, show(value), want)
}

// firstDatabase prefers the databases of users to the one that each PostgreSQL has.
func firstDatabase(databases []string) string {
	const always = "postgres"
	if i := slices.IndexFunc(databases, func(name string) bool { return name != always }); i >= 0 {
		return databases[i]
	}
	return always
}

// expected reports whether the first value of a query is right. Boolean values are f in PostgreSQL, and 0 in MySQL.
func expected(value, want *string) bool {
	if value == nil {
		return false
	}
	if want != nil {
		return *value == *want
	}
	return !slices.Contains([]string{"f", "false", "0", ""}, *value)
}

// show returns the start of a value for a message.
func show(value *string) string {
	const most = 64
	if value == nil {
		return "NULL or missing"
	}
	text := []rune(strings.ToValidUTF8(*value, "?"))
	if len(text) > most {
		return fmt.Sprintf("%q…", string(text[:most]))
	}
	return fmt.Sprintf("%q", string(text))
}
