package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/pki"
	"github.com/fettle-dev/fettle/internal/postgres/server"
)

// createData makes the data of a new cluster, empty or a copy of a server, only with programs of the version in the object.
func (a *Agent) createData(object *databasev1alpha1.PostgreSQL) func(context.Context) error {
	initdb := object.Spec.Bootstrap.Initdb
	options := server.InitOptions{Locale: initdb.Locale, ICULocale: initdb.ICULocale, WALSegmentSize: int(initdb.WALSegmentSizeMB)}
	wrong := a.sameMajor(object)
	return func(ctx context.Context) error {
		if wrong != nil {
			return wrong
		}
		if object.Spec.Bootstrap.PgBasebackup != nil {
			return a.importData(ctx, object.Spec.Bootstrap.PgBasebackup)
		}
		if err := a.clearNeedsReclone(); err != nil {
			return err
		}
		return a.server.Init(ctx, options)
	}
}

// sameMajor says that the image is of another major version than the object, whose parameters are judged by its version.
func (a *Agent) sameMajor(object *databasev1alpha1.PostgreSQL) error {
	first, _, _ := strings.Cut(object.Spec.Version, ".")
	if object.Spec.Version == "" || first == strconv.Itoa(a.major) {
		return nil
	}
	return fmt.Errorf("spec.version is %s, and the image has PostgreSQL %s: set spec.image to an image of version %s", object.Spec.Version, a.version, first)
}

const (
	// expensivePause is the time between two tries that put the source to some work, or that will hardly succeed.
	expensivePause = 2 * time.Minute
	// importCheckTimeout bounds a look at a copy before it is promoted.
	importCheckTimeout = 5 * time.Second
)

// importStatus is what the operator is told of the server that the first data are a copy of: a reason, and a sentence.
type importStatus struct{ reason, message string }

// importData makes the data directory of a new cluster a copy of the server that the object names. It becomes that of a standby
// without an upstream, which the election then has promoted: so the cluster is on a timeline of its own.
func (a *Agent) importData(ctx context.Context, from *databasev1alpha1.PostgreSQLPgBasebackup) error {
	if pki.IsOwnHost(a.options.Cluster, a.options.Namespace, from.Host) {
		return &server.SourceError{Kind: server.Unsuitable, Message: from.Host + " is this PostgreSQL itself: name the server to copy as host"}
	}
	source, done, err := a.external(from)
	if err != nil {
		return err
	}
	defer done()
	return a.importFrom(ctx, source)
}

// importFrom copies a source and says when it begins. Until then the status keeps what the last try met, and does not flap.
func (a *Agent) importFrom(ctx context.Context, source server.External) error {
	identity, err := a.server.Preflight(ctx, source)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%s (PostgreSQL %s, system identifier %s)", source.Address(), identity.Version, identity.SystemID)
	a.log.Info("copy", "source", what)
	a.enqueue(func() {
		a.lastError = ""
		a.importStatus = importStatus{databasev1alpha1.ReasonCopying, "copies the data of " + source.Address()}
	})
	if err := a.clearNeedsReclone(); err != nil {
		return err
	}
	if err := a.server.Import(ctx, source); err != nil {
		return err
	}
	a.enqueue(func() {
		a.importStatus.message = "starts with the data of " + source.Address()
		a.events.Normal("Copied", "the data of "+a.options.Pod+" are a copy of "+what)
		if !identity.Checksums {
			a.events.Warn("NoChecksums", "the data of "+source.Address()+
				" have no checksums, and so has their copy: damage of the volumes may go unnoticed; data that are moved by pg_dump have them")
		}
	})
	return nil
}

// recordSourceError notes what is in the way of the cluster's first data.
func (a *Agent) recordSourceError(err error) {
	obstacle, ok := errors.AsType[*server.SourceError](err)
	if !ok {
		return
	}
	a.importStatus = importStatus{string(obstacle.Kind), oneLine(obstacle.Message)}
	if obstacle.Cause != nil {
		a.log.Warn("source", "reason", a.importStatus.reason, "error", oneLine(obstacle.Cause.Error()))
	}
	if obstacle.Expensive {
		a.nextTaskAt = max(a.nextTaskAt, now()+expensivePause)
	}
}

// external is the source with what opens it, which done takes away.
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
		// A mounted Secret belongs to root and its group may read it, which older versions of libpq refuse for a key.
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

// secret reads what is mounted of a Secret, which may not be there yet.
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

// checkImported looks at a copy before it is promoted for the first time, if the cluster had no primary: afterwards it is too late.
func (a *Agent) checkImported() func(context.Context) error {
	if a.spec == nil || a.spec.Spec.Bootstrap.PgBasebackup == nil || a.observation.Lease.Primary != "" {
		return func(context.Context) error { return nil }
	}
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, importCheckTimeout)
		defer cancel()
		unfit, err := a.adminConn.CheckImported(ctx)
		if err != nil {
			return fmt.Errorf("look at the copy: %w", err)
		}
		if unfit != "" {
			return &server.SourceError{Kind: server.Unsuitable, Expensive: true, Message: unfit +
				". Put that right on the source, then delete this PostgreSQL with its claims and make it again"}
		}
		return nil
	}
}
