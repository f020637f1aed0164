package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/archive"
	"github.com/fettle-dev/fettle/internal/backup/job"
	"github.com/fettle-dev/fettle/internal/backup/manifest"
	"github.com/fettle-dev/fettle/internal/backup/store"
)

// assignment is a part of a backup and the database to restore it into.
type assignment struct {
	part manifest.Part
	to   job.Database
	toc  string
}

// restore checks the backup and all targets before it changes the first one.
func (r *run) restore(ctx context.Context) (result backupv1alpha1.RunResult, err error) {
	from := r.config.Restore.From
	if err := r.openStore(ctx, from.Destination, path.Join(cmp.Or(from.Namespace, r.config.Namespace), from.Backup)); err != nil {
		return result, err
	}
	defer r.store.Close() //nolint:errcheck // it is only read
	m, err := r.findBackup(ctx)
	if err != nil {
		return result, err
	}
	result.Location, result.StoredBytes = r.store.URI(manifest.Folder(m.Run)), m.Size()
	if r.config.Restore.Temporary != nil {
		err := r.verifyBackup(ctx, m, &result)
		return result, err
	}
	target, err := r.newServer(&r.config.Restore.To)
	if err != nil {
		return result, err
	}
	assignments, err := assign(m, r.config.Restore.To)
	if err != nil {
		return result, err
	}
	if err := r.checkTargets(ctx, m, target, assignments); err != nil {
		return result, err
	}
	// The first pass reads everything and changes nothing. A damaged backup or a wrong key is found while the target still has its data.
	for i := range assignments {
		if assignments[i].toc, err = r.verify(ctx, m, target, assignments[i].part); err != nil {
			return result, err
		}
	}
	return result, r.restoreAll(ctx, m, target, assignments)
}

// findBackup reads the manifest of the run that is named, or else of the last one.
func (r *run) findBackup(ctx context.Context) (*manifest.Manifest, error) {
	name := r.config.Restore.From.Run
	if name != "" {
		m, err := manifest.Read(ctx, r.store, name)
		if errors.Is(err, store.ErrNotFound) {
			return nil, refuse(backupv1alpha1.ReasonNoBackup, "%s has no complete backup: check destination, namespace and names",
				r.store.URI(manifest.Folder(name)))
		}
		if errors.Is(err, manifest.ErrInvalid) {
			return nil, refuse(backupv1alpha1.ReasonBackupDamaged, "%w: restore another run", err)
		}
		return m, err
	}
	complete, _, err := manifest.List(ctx, r.store)
	if err != nil {
		return nil, err
	}
	if len(complete) == 0 {
		return nil, refuse(backupv1alpha1.ReasonNoBackup, "%s has no complete backup: check destination, namespace and names", r.store.URI(""))
	}
	return complete[len(complete)-1], nil
}

// assign finds the target of each part. The only part may go to a database with another name.
func assign(m *manifest.Manifest, to job.Server) ([]assignment, error) {
	if m.Method != string(backupv1alpha1.MethodLogical) || m.Type != string(to.Type) {
		return nil, refuse(backupv1alpha1.ReasonBackupUnsuitable, "backup %s is a %s one of a %s server, and cannot be restored into %s: correct from or to",
			m.Run, m.Method, m.Type, to.Type)
	}
	if len(m.Parts) == 1 && len(to.Databases) == 1 {
		return []assignment{{part: m.Parts[0], to: to.Databases[0]}}, nil
	}
	targets := map[string]job.Database{}
	for _, database := range to.Databases {
		targets[database.Name] = database
	}
	var all []assignment
	for _, part := range m.Parts {
		database, found := targets[part.Database]
		if !found {
			return nil, refuse(backupv1alpha1.ReasonBackupUnsuitable, "backup %s has database %s, and the target has no database of this name: add it to the target",
				m.Run, part.Database)
		}
		all = append(all, assignment{part: part, to: database})
	}
	return all, nil
}

// checkTargets refuses targets that have data, unless overwrite is set.
func (r *run) checkTargets(ctx context.Context, m *manifest.Manifest, target server, all []assignment) error {
	for _, a := range all {
		info, err := target.inspect(ctx, a.to)
		if err != nil {
			return err
		}
		for _, version := range []string{info.version, m.Programs["pg_dump"]} {
			if _, err := target.programs(ctx, version); err != nil {
				return err
			}
		}
		if info.objects > 0 && !r.config.Restore.Overwrite {
			return refuse(backupv1alpha1.ReasonTargetNotEmpty, "database %s is not empty, and nothing was changed: "+
				"restore into an empty database, or set overwrite (tables and other objects: %d)", a.to.Name, info.objects)
		}
	}
	return nil
}

// open opens a part of a backup.
func (r *run) open(ctx context.Context, m *manifest.Manifest, part manifest.Part) (body io.ReadCloser, dump *archive.Reader, err error) {
	identity, err := os.ReadFile(filepath.Join(r.path(job.DirIdentity), "identity"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("read the private key: %w", err)
	}
	body, err = manifest.Open(ctx, r.store, m.Run, part)
	if err != nil {
		return nil, nil, damaged(part, err)
	}
	dump, err = archive.NewReader(body, part.Name, identity)
	if err != nil {
		_ = body.Close()
		return nil, nil, damaged(part, err)
	}
	return body, dump, nil
}

// verify reads a whole part and compares it with its manifest.
func (r *run) verify(ctx context.Context, m *manifest.Manifest, target server, part manifest.Part) (toc string, err error) {
	body, dump, err := r.open(ctx, m, part)
	if err != nil {
		return "", err
	}
	defer body.Close() //nolint:errcheck // it is only read
	toc, prepareErr := target.prepare(ctx, dump)
	if err := damaged(part, dump.Verify(part.Size, part.SHA256)); err != nil {
		return "", err
	}
	if prepareErr != nil {
		return "", refuse(backupv1alpha1.ReasonBackupDamaged, "%s: %w: restore another run", part.Name, prepareErr)
	}
	return toc, nil
}

// damaged returns the reason for an error of a part.
func damaged(part manifest.Part, err error) error {
	switch {
	case errors.Is(err, archive.ErrKeyMissing):
		return refuse(backupv1alpha1.ReasonKeyMissing, "%s: %w: set identitySecretRef to the Secret with the private age key", part.Name, err)
	case errors.Is(err, archive.ErrDamaged):
		return refuse(backupv1alpha1.ReasonBackupDamaged, "%s: %w: restore another run", part.Name, err)
	}
	return err
}

// restoreAll changes the targets.
func (r *run) restoreAll(ctx context.Context, m *manifest.Manifest, target server, all []assignment) error {
	var total int64
	for _, a := range all {
		total += a.part.RawSize
	}
	stop := r.progress.Start(ctx, total)
	defer stop()
	for _, a := range all {
		if err := r.restoreOne(ctx, m, target, a); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) restoreOne(ctx context.Context, m *manifest.Manifest, target server, a assignment) error {
	body, dump, err := r.open(ctx, m, a.part)
	if err != nil {
		return err
	}
	defer body.Close() //nolint:errcheck // it is only read
	if r.config.Restore.Overwrite {
		if err := target.clear(ctx, a.to); err != nil {
			return err
		}
	}
	err = target.restore(ctx, a.part.Database, a.to, a.toc, r.progress.Reader(dump))
	if programErr := (&programError{}); errors.As(err, &programErr) {
		// The message of a program depends on its version. Ask the server for the reason.
		if _, reason := target.inspect(ctx, a.to); reason != nil {
			return reason
		}
		return refuse(backupv1alpha1.ReasonRestoreFailed, "restore of %s: %w. The database may be incomplete", a.to.Name, programErr)
	}
	if err != nil {
		return damaged(a.part, err)
	}
	// It was right in the first pass. This is the copy that was restored.
	return damaged(a.part, dump.Verify(a.part.Size, a.part.SHA256))
}
