package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/store"
	"github.com/fettle-dev/fettle/internal/backup/walarchive"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/postgres/election"
	"github.com/fettle-dev/fettle/internal/postgres/server"
)

const (
	readySuffix = ".ready"
	historyEnd  = ".history"
	// countInterval is the time between two counts of the files that wait.
	countInterval = 5 * time.Second
	// archiveBehind is how many files may wait before archiving counts as behind.
	archiveBehind = 32
)

// openArchive returns the archive, and opens the store if none is open.
func (a *archiver) openArchive(ctx context.Context) (*walarchive.Archive, error) {
	a.mutex.Lock()
	archive, view, run := a.archive, a.view, a.archiveRun.ctx
	a.mutex.Unlock()
	if archive != nil {
		return archive, nil
	}
	if view.destination == nil {
		return nil, errors.New("backups are not enabled")
	}
	opened, err := a.open(ctx, *view.destination)
	if err != nil {
		return nil, err
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if run.Err() != nil || a.archive != nil { // the destination has changed, or another upload was faster
		err := opened.Close()
		if a.archive == nil || err != nil {
			return nil, errors.Join(errors.New("the destination has changed"), err)
		}
		return a.archive, nil
	}
	a.store, a.opened, a.archive = opened, time.Now(), walarchive.New(opened, view.systemID)
	return a.archive, nil
}

// closeStore makes the next upload open the store again. Running uploads of an idle connection pool end normally. The caller holds
// the mutex.
func (a *archiver) closeStore() {
	if old := a.store; old != nil {
		running := make([]*upload, 0, len(a.uploads))
		for _, u := range a.uploads {
			running = append(running, u)
		}
		go func() {
			for _, u := range running {
				<-u.done
			}
			if err := old.Close(); err != nil {
				a.log.Debug("failed to close the store", "error", err.Error())
			}
		}()
	}
	a.store, a.archive = nil, nil
}

// ready returns the first files that wait in pg_wal to be archived, in PostgreSQL's order: histories first.
func (a *archiver) ready(limit int) []string {
	entries, err := os.ReadDir(filepath.Join(a.walDir, "archive_status"))
	if err != nil {
		return nil // there is no data directory
	}
	var names []string
	for _, entry := range entries {
		if name, ok := strings.CutSuffix(entry.Name(), readySuffix); ok {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(x, y string) int {
		history := func(name string) int {
			if strings.HasSuffix(name, historyEnd) {
				return 0
			}
			return 1
		}
		return cmp.Or(history(x)-history(y), strings.Compare(x, y))
	})
	return names[:min(len(names), limit)]
}

// countWaiting counts the files that wait, until the context ends.
func (a *archiver) countWaiting(ctx context.Context) {
	for ctx.Err() == nil {
		n := len(a.ready(1 << 30)) //nolint:mnd // all
		a.mutex.Lock()
		a.state.waiting = n
		a.mutex.Unlock()
		sleep(ctx, countInterval)
	}
}

// Status is the state of archiving; nil while backups are not enabled, and without an archiver.
func (a *archiver) Status() *agentapi.Archive {
	if a == nil {
		return nil
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.view.destination == nil {
		return nil
	}
	s := a.state
	out := &agentapi.Archive{LastSegment: s.lastSegment, LastSuccess: s.lastSuccess, LastWritten: s.lastWritten, Waiting: s.waiting}
	oldest := time.Now()
	for _, u := range a.uploads {
		if u.started.Before(oldest) {
			oldest = u.started
		}
	}
	switch slow := time.Since(oldest); {
	case s.failure != nil:
		out.Reason, out.Message, out.FailingSince = databasev1alpha1.ReasonArchivingFailed, oneLine(s.failure.Error()), s.failingSince
	case slow > archiveSlow:
		out.Reason, out.FailingSince = databasev1alpha1.ReasonArchivingFailed, oldest
		out.Message = fmt.Sprintf("the store has not taken a WAL file within %s: check endpoint, DNS, firewalls and NetworkPolicies", archiveSlow)
	case s.lastSuccess.IsZero():
		out.Reason = databasev1alpha1.ReasonArchivingStarting
	case s.waiting > archiveBehind:
		out.Reason = databasev1alpha1.ReasonArchivingBehind
	default:
		out.Reason = databasev1alpha1.ReasonArchiving
	}
	out.Message = out.Message[:min(len(out.Message), maxErrorText)]
	return out
}

// archiveView is what the loop knows for the archiver.
func (a *Agent) archiveView() archiveView {
	object, _ := a.object.Get()
	v := archiveView{known: object != nil, systemID: a.own.SystemID, primary: a.own.Role == election.Primary, timeline: a.own.Position.Timeline}
	if object != nil && object.Spec.Backup != nil && object.Spec.Backup.Enabled {
		v.destination = object.Spec.Backup.Destination
	}
	if a.own.Process == election.Stopping || a.own.Process == election.Down {
		v.stoppingSince = time.Now()
	}
	return v
}

// openStore opens the place of this cluster's own backups.
func (a *Agent) openStore(ctx context.Context, d backupv1alpha1.Destination) (*store.Store, error) {
	return a.openStoreAt(ctx, d, a.options.Namespace+"/"+a.options.Cluster)
}

// openStoreAt opens a folder of the store of a destination with the keys in its Secrets.
func (a *Agent) openStoreAt(ctx context.Context, d backupv1alpha1.Destination, folder string) (*store.Store, error) {
	keys := store.Keys{}
	if ref := d.CredentialsSecretRef; ref != nil {
		secret, err := a.storeSecret(ctx, "credentialsSecretRef", ref.Name)
		if err != nil {
			return nil, err
		}
		keys.Files = secret.Data
	}
	if ref := d.CASecretRef; ref != nil {
		secret, err := a.storeSecret(ctx, "caSecretRef", ref.Name)
		if err != nil {
			return nil, err
		}
		key := ref.KeyOr("ca.crt")
		if keys.CA = secret.Data[key]; len(keys.CA) == 0 {
			return nil, storeSecretMissing("destination.caSecretRef: Secret %s has no key %s: add it", ref.Name, key)
		}
	}
	return store.Open(ctx, d, keys, folder, append([]store.Option{store.PartSize(archivePart)}, a.options.Store...)...)
}

func (a *Agent) storeSecret(ctx context.Context, field, name string) (*corev1.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	secret, err := a.core.Secrets(a.options.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, storeSecretMissing("destination.%s: Secret %s does not exist: create it", field, name)
	case err != nil:
		return nil, fmt.Errorf("%w: read Secret %s: %w", errAPI, name, err)
	}
	return secret, nil
}

func storeSecretMissing(format string, arguments ...any) error {
	return &server.SourceError{Kind: server.SecretMissing, Message: fmt.Sprintf(format, arguments...)}
}
