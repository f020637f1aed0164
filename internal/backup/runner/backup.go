package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/archive"
	"github.com/fettle-dev/fettle/internal/backup/manifest"
	"github.com/fettle-dev/fettle/internal/backup/retention"
	"github.com/fettle-dev/fettle/internal/backup/store"
)

// cleanupTimeout is how long the removal of the parts of a failed run may take.
const cleanupTimeout = 30 * time.Second

// take stores the parts of a backup and adds them to its manifest.
type take func(ctx context.Context, m *manifest.Manifest, o archive.Options) error

// method is how the parts are taken.
func (r *run) method() take {
	if r.config.Backup.Method == backupv1alpha1.MethodPhysical {
		return r.copyFiles
	}
	return r.dump
}

func (r *run) backUp(ctx context.Context) (backupv1alpha1.RunResult, error) {
	return r.backUpBy(ctx, r.method())
}

// backUpBy stores the parts, then the manifest, then deletes old backups.
func (r *run) backUpBy(ctx context.Context, take take) (result backupv1alpha1.RunResult, err error) {
	b := r.config.Backup
	rule, err := retention.Parse(b.Retention, b.Policy)
	if err != nil {
		return result, refuse(backupv1alpha1.ReasonRunFailed, "retention: %w", err)
	}
	if err := r.openStore(ctx, b.Destination, path.Join(r.config.Namespace, b.Name)); err != nil {
		return result, err
	}
	defer r.store.Close() //nolint:errcheck // each object was closed
	m, err := r.takeOnce(ctx, take)
	if err != nil {
		return result, err
	}
	result.Location, result.StoredBytes = r.store.URI(manifest.Folder(m.Run)), m.Size()
	if err := errors.Join(r.applyRetention(ctx, rule, &result), r.removeAbandoned(ctx)); err != nil {
		result.RetentionMessage = r.failure(err).Message
	}
	return result, nil
}

// takeOnce takes the backup, unless an earlier attempt did and could not report it.
func (r *run) takeOnce(ctx context.Context, take take) (*manifest.Manifest, error) {
	m, err := manifest.Read(ctx, r.store, r.config.Object)
	if err == nil {
		r.Log.Info("an earlier attempt completed this backup")
		return m, nil
	}
	if !errors.Is(err, store.ErrNotFound) && !errors.Is(err, manifest.ErrInvalid) {
		return nil, err // a store that cannot be read fails before the dump
	}
	m = &manifest.Manifest{
		Format: manifest.Format, Namespace: r.config.Namespace, Backup: r.config.Backup.Name, Run: r.config.Object,
		Method: string(r.config.Backup.Method), Type: string(r.config.Backup.Server.Type), Started: time.Now().UTC(),
		Compression: string(r.config.Backup.Compression), Encrypted: len(r.config.Backup.Recipients) > 0,
	}
	err = take(ctx, m, archive.Options{Compression: r.config.Backup.Compression, Recipients: r.config.Backup.Recipients})
	if err == nil {
		if m.Completed.IsZero() {
			m.Completed = time.Now().UTC()
		}
		err = manifest.Write(ctx, r.store, m)
	}
	if err != nil {
		r.removeParts(ctx, r.config.Object)
		return nil, err
	}
	return m, nil
}

// dump stores a dump of each database.
func (r *run) dump(ctx context.Context, m *manifest.Manifest, o archive.Options) error {
	server, err := r.newServer(&r.config.Backup.Server)
	if err != nil {
		return err
	}
	databases := r.config.Backup.Server.Databases
	var total int64
	objects := map[string]int64{}
	for _, database := range databases {
		info, err := server.inspect(ctx, database)
		if err != nil {
			return err
		}
		if info.missing {
			return refuse(backupv1alpha1.ReasonDatabaseMissing, "database %s does not exist: create it, or correct its name", database.Name)
		}
		m.ServerVersion, total = info.version, total+info.size
		objects[database.Name] = info.objects
	}
	if m.Programs, err = server.programs(ctx, m.ServerVersion); err != nil {
		return err
	}
	stop := r.progress.Start(ctx, total)
	defer stop()
	for _, database := range databases {
		part, err := r.upload(ctx, database.Name+server.extension(), o, server.dump(database), server.complete)
		if programErr := (&programError{}); errors.As(err, &programErr) {
			// The message of a program depends on its version. Ask the server for the reason.
			if _, reason := server.inspect(ctx, database); reason != nil {
				return reason
			}
			return fail(backupv1alpha1.ReasonDumpFailed, "dump of %s: %w", database.Name, programErr)
		}
		if err != nil {
			return err
		}
		part.Database, part.Objects = database.Name, objects[database.Name]
		m.Parts = append(m.Parts, part)
	}
	return nil
}

// removeParts deletes the parts of a run that failed. Without a manifest they are not a backup, so what remains does no harm.
func (r *run) removeParts(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	if err := manifest.Delete(ctx, r.store, name); err != nil {
		r.Log.Warn("failed to remove the parts of a failed run", "run", name, "error", r.failure(err).Message)
	}
}

// abandonedAge is how long nothing may have been stored of a run that has no manifest, until its parts are deleted. A run takes at most a
// week, see spec.timeoutSeconds.
const abandonedAge = 8 * 24 * time.Hour

// removeAbandoned deletes the parts of earlier runs whose pods were killed before they could do it.
func (r *run) removeAbandoned(ctx context.Context) error {
	runs, err := manifest.DeleteAbandoned(ctx, r.store, r.config.Object, abandonedAge)
	if len(runs) > 0 {
		r.Log.Info("deleted the parts of runs that were stopped", "runs", runs)
	}
	if err != nil {
		return fmt.Errorf("delete the parts of runs that were stopped: %w", err)
	}
	return nil
}

// applyRetention deletes the backups that the rule does not keep, and the WAL that the others do not need. A damaged manifest is left
// alone: its contents are unknown.
func (r *run) applyRetention(ctx context.Context, rule retention.Rule, result *backupv1alpha1.RunResult) error {
	complete, damaged, err := manifest.List(ctx, r.store)
	if err != nil {
		return err
	}
	expired := r.expired(rule, complete)
	var kept, deleted []*manifest.Manifest
	var failed error
	for _, m := range complete {
		if !slices.Contains(expired, m.Run) {
			kept = append(kept, m)
			continue
		}
		if err := manifest.Delete(ctx, r.store, m.Run); err != nil {
			failed = cmp.Or(failed, fmt.Errorf("delete %s: %w", m.Run, err))
			kept = append(kept, m) // it can still be restored, and so can the WAL after it
			continue
		}
		deleted = append(deleted, m)
		result.DeletedBackups++
	}
	if r.config.Backup.Method == backupv1alpha1.MethodPhysical {
		first, err := r.expireWAL(ctx, kept, deleted)
		if !first.IsZero() {
			result.FirstRecoverableTime = new(metav1.NewTime(first))
		}
		failed = cmp.Or(failed, err)
	}
	if failed != nil {
		return failed
	}
	if len(damaged) > 0 {
		return fmt.Errorf("damaged manifests, which no retention deletes: %q: delete the folders if they are useless", damaged)
	}
	return nil
}

// expired returns the runs to delete. A clock that went back must not delete what was just stored. Each time within the retention of
// Physical backups needs a base backup before it, so the newest one that is older stays.
func (r *run) expired(rule retention.Rule, complete []*manifest.Manifest) []string {
	runs := make([]retention.Run, 0, len(complete))
	for _, m := range complete {
		runs = append(runs, retention.Run{Name: m.Run, Completed: m.Completed, Keep: slices.Contains(r.config.Backup.Keep, m.Run)})
	}
	out := slices.DeleteFunc(rule.Expired(runs, time.Now()), func(name string) bool { return name == r.config.Object })
	b := r.config.Backup
	if byAge := b.Retention != "" && !strings.HasSuffix(b.Retention, "c"); byAge && b.Method == backupv1alpha1.MethodPhysical && len(out) > 0 {
		out = out[:len(out)-1] // the oldest are first
	}
	return out
}
