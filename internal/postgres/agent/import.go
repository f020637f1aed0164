package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/pki"
	"github.com/fettle-dev/fettle/internal/postgres/server"
)

// createData creates the data of new volumes, empty, imported from a server or restored from a backup, only with programs of the
// version in the object. lease may be about a restore in place; nil for none.
func (a *Agent) createData(object *databasev1alpha1.PostgreSQL, lease *leaseRecord) func(context.Context) error {
	bootstrap, err := bootstrapOf(object, lease)
	initdb := bootstrap.Initdb
	options := server.InitOptions{Locale: initdb.Locale, ICULocale: initdb.ICULocale, WALSegmentSize: int(initdb.WALSegmentSizeMB)}
	wrong, settings := a.sameMajor(object), config.Settings{}
	if bootstrap.Recovery != nil {
		settings = a.settings(object, rendering{})
	}
	return func(ctx context.Context) error {
		if err := cmp.Or(wrong, err); err != nil {
			return err
		}
		if bootstrap.PgBasebackup != nil {
			return a.importData(ctx, bootstrap.PgBasebackup)
		}
		if bootstrap.Recovery != nil {
			return a.recoverData(ctx, bootstrap.Recovery, settings)
		}
		if err := a.clearNeedsReclone(); err != nil {
			return err
		}
		return a.server.Init(ctx, options)
	}
}

// bootstrapOf says how the first data are created: by the restore in place that the Lease was made for, or by the spec. Later volumes are
// never empty databases, unless the whole PostgreSQL is new.
func bootstrapOf(object *databasev1alpha1.PostgreSQL, lease *leaseRecord) (databasev1alpha1.PostgreSQLBootstrap, error) {
	switch {
	case lease == nil:
	case lease.Recovery != "":
		recovery := &databasev1alpha1.PostgreSQLRecovery{}
		if err := json.Unmarshal([]byte(lease.Recovery), recovery); err != nil {
			return databasev1alpha1.PostgreSQLBootstrap{}, fmt.Errorf("annotation %s of the Lease: %w", AnnotationRecovery, err)
		}
		return databasev1alpha1.PostgreSQLBootstrap{Recovery: recovery}, nil
	case lease.Volumes > 1 && !lease.Fresh:
		return databasev1alpha1.PostgreSQLBootstrap{}, fmt.Errorf("the volumes %d have no data: set the annotation %s to the number of volumes that have",
			lease.Volumes, databasev1alpha1.AnnotationVolumes)
	}
	return object.Spec.Bootstrap, nil
}

// sameMajor returns an error if the image has another major version than the object, whose parameters are validated for its
// version.
func (a *Agent) sameMajor(object *databasev1alpha1.PostgreSQL) error {
	first, _, _ := strings.Cut(object.Spec.Version, ".")
	if object.Spec.Version == "" || first == strconv.Itoa(a.major) {
		return nil
	}
	return fmt.Errorf("spec.version is %s, and the image has PostgreSQL %s: set spec.image to an image of version %s", object.Spec.Version, a.version, first)
}

const (
	// expensivePause is the time between two tries that cost the source some work, or that will hardly succeed.
	expensivePause = 2 * time.Minute
	// importCheckTimeout bounds the check of imported data before it is promoted.
	importCheckTimeout = 5 * time.Second
)

// importStatus is the state of the import of the cluster's first data, for the operator: a reason, a sentence, and the progress of a base
// backup that is restored.
type importStatus struct {
	reason, message string
	progress        *backupv1alpha1.Progress
}

// importData makes the data directory of a new cluster a copy of the server that the object names. The result is the data of a
// standby without an upstream, which the election promotes: so the cluster has its own timeline.
func (a *Agent) importData(ctx context.Context, from *databasev1alpha1.PostgreSQLPgBasebackup) error {
	if pki.IsOwnHost(a.options.Cluster, a.options.Namespace, from.Host) {
		return &server.SourceError{Kind: server.Unsuitable, Message: from.Host + " is this PostgreSQL itself: set host to the server to import from"}
	}
	source, done, err := a.external(from)
	if err != nil {
		return err
	}
	defer done()
	return a.importFrom(ctx, source)
}

// importFrom copies a source and reports when it starts. Until then the status keeps the outcome of the last try, so it does not
// flap.
func (a *Agent) importFrom(ctx context.Context, source server.External) error {
	identity, err := a.server.Preflight(ctx, source)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%s (PostgreSQL %s, system identifier %s)", source.Address(), identity.Version, identity.SystemID)
	a.log.Info("importing data", "source", what)
	a.enqueue(func() {
		a.lastError = ""
		a.importStatus = importStatus{reason: databasev1alpha1.ReasonCopying, message: "importing the data of " + source.Address()}
	})
	if err := a.clearNeedsReclone(); err != nil {
		return err
	}
	if err := a.server.Import(ctx, source); err != nil {
		return err
	}
	a.enqueue(func() {
		a.importStatus.message = "starting with the data of " + source.Address()
		a.events.Normal("Copied", "imported the data of "+a.options.Pod+" from "+what)
		if !identity.Checksums {
			a.events.Warn("NoChecksums", source.Address()+
				" has no data checksums, so the imported data has none: corruption may go unnoticed; use pg_dump to get data checksums")
		}
	})
	return nil
}

// recordSourceError records why the cluster's first data cannot be imported.
func (a *Agent) recordSourceError(err error) {
	obstacle, ok := errors.AsType[*server.SourceError](err)
	if !ok {
		return
	}
	a.importStatus = importStatus{reason: string(obstacle.Kind), message: oneLine(obstacle.Message)}
	if obstacle.Cause != nil {
		a.log.Warn("failed to import data", "reason", a.importStatus.reason, "error", oneLine(obstacle.Cause.Error()))
	}
	if obstacle.Expensive {
		a.nextTaskAt = max(a.nextTaskAt, now()+expensivePause)
	}
}

// external is the source with its credentials, which done removes.
func (a *Agent) external(from *databasev1alpha1.PostgreSQLPgBasebackup) (source server.External, done func(), err error) {
	source = server.External{
		External:        config.External{Host: from.Host, Port: int(from.Port), User: from.User, SSLMode: from.SSLMode},
		ApplicationName: a.options.Pod,
	}
	keys := filepath.Join(a.options.Run, "source")
	done = func() { _ = os.RemoveAll(keys) } // tried again before the next copy; it lies in memory or on the pod's own disk
	done()
	if ref := from.CASecret; ref != nil {
		source.CAFile = filepath.Join(a.options.Source, "ca.crt")
		_, err = a.secret("ca.crt", ref.Name, ref.KeyOr("ca.crt"))
	}
	if ref := from.PasswordSecret; ref != nil && err == nil {
		var password []byte
		password, err = a.secret("password", ref.Name, ref.KeyOr("password"))
		source.Password = strings.TrimRight(string(password), "\r\n") // of a file, of which the last line ends
	}
	if ref := from.ClientCertificateSecret; ref != nil && err == nil {
		// A mounted Secret belongs to root and its group may read it. Older versions of libpq reject such a key.
		source.CertFile, source.KeyFile = filepath.Join(keys, "tls.crt"), filepath.Join(keys, "tls.key")
		for _, name := range []string{"tls.crt", "tls.key"} {
			content, failure := a.secret(name, ref.Name, name)
			if failure == nil {
				failure = server.WriteFile(filepath.Join(keys, name), content)
			}
			err = errors.Join(err, failure)
		}
	}
	if err != nil {
		done()
	}
	return source, done, err
}

// secret reads the mounted file of a Secret, which may not exist yet.
func (a *Agent) secret(file, name, key string) ([]byte, error) {
	content, err := os.ReadFile(filepath.Join(a.options.Source, file))
	if err == nil && len(content) > 0 {
		return content, nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("Secret %q: %w", name, err) //nolint:staticcheck // it is the name of a kind
	}
	return nil, &server.SourceError{Kind: server.SecretMissing, Message: fmt.Sprintf(
		"spec.bootstrap.pgBasebackup: Secret %q does not exist, or has nothing under its key %q: create it; the pod sees it after a minute or two", name, key)}
}

// checkImported checks imported data before its first promotion, if the cluster never had a primary: afterwards it is too late.
func (a *Agent) checkImported() func(context.Context) error {
	if a.spec == nil || a.spec.Spec.Bootstrap.PgBasebackup == nil || a.observation.Lease.Primary != "" || a.record == nil || a.record.Recovery != "" {
		return func(context.Context) error { return nil }
	}
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, importCheckTimeout)
		defer cancel()
		unfit, err := a.adminConn.CheckImported(ctx)
		if err != nil {
			return fmt.Errorf("check the imported data: %w", err)
		}
		if unfit != "" {
			return &server.SourceError{Kind: server.Unsuitable, Expensive: true, Message: unfit +
				". Fix this on the source, then delete this PostgreSQL with its PVCs and create it again"}
		}
		return nil
	}
}
