package agent

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/postgres/election"
	"github.com/fettle-dev/fettle/internal/postgres/server"
)

// TestImport_secretsOfSource has them come after the pod, and keys that are taken away again.
func TestImport_secretsOfSource(t *testing.T) {
	o := options
	o.Source, o.Run = t.TempDir(), t.TempDir()
	a := &Agent{options: o}
	from := &databasev1alpha1.PostgreSQLPgBasebackup{
		Host: "old", Port: 5432, User: "copier", PasswordSecret: &fettlev1.SecretKeyReference{Name: "one", Key: "POSTGRES_PASSWORD"},
		CASecret: &fettlev1.SecretKeyReference{Name: "two"}, ClientCertificateSecret: &fettlev1.LocalReference{Name: "three"},
	}
	for _, step := range []struct{ file, content, says string }{
		{"", "", `Secret "two" does not exist, or has nothing under its key "ca.crt"`},
		{"ca.crt", "ca", `Secret "one" does not exist, or has nothing under its key "POSTGRES_PASSWORD"`},
		{"password", "", `Secret "one"`},
		{"password", "a secret \r\n", `Secret "three" does not exist, or has nothing under its key "tls.crt"`},
		{"tls.crt", "certificate", `Secret "three" does not exist, or has nothing under its key "tls.key"`},
		{"tls.key", "key", ""},
	} {
		if step.file != "" {
			write(t, filepath.Join(o.Source, step.file), step.content)
		}
		source, done, err := a.external(from)
		if step.says != "" {
			wantsObstacle(t, step.file, err, step.says)
			continue
		}
		if err != nil {
			t.Fatalf("with %s: %v", step.file, err)
		}
		key, err := os.Stat(source.KeyFile)
		if err != nil || key.Mode().Perm() != 0o600 || source.Password != "a secret " {
			t.Errorf("the password %q, the key %v, %v", source.Password, key, err)
		}
		done()
	}
	if left, _ := os.ReadDir(o.Run); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// wantsObstacle holds that err is for want of a Secret, and says so.
func wantsObstacle(t *testing.T, with string, err error, says string) {
	t.Helper()
	obstacle, ok := errors.AsType[*server.SourceError](err)
	if !ok || obstacle.Kind != server.SecretMissing || !strings.Contains(obstacle.Message, says) {
		t.Fatalf("with %s: %v, want %s", with, err, says)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestImport_fromItself does not wait for a server that only this copy would make.
func TestImport_fromItself(t *testing.T) {
	a := &Agent{options: options, major: 15}
	object := newObject(func(o *databasev1alpha1.PostgreSQL) {
		o.Spec.Version = "15"
		o.Spec.Bootstrap.PgBasebackup = &databasev1alpha1.PostgreSQLPgBasebackup{Host: options.Cluster + "." + options.Namespace}
	})
	err := a.createData(object, nil)(t.Context())
	if obstacle, ok := errors.AsType[*server.SourceError](err); !ok || obstacle.Kind != server.Unsuitable {
		t.Errorf("%v", err)
	}
}

// TestImport_status checks that what is in the way of the first data is told in the same words until something else is known, and how soon
// it is tried again.
func TestImport_status(t *testing.T) {
	a := &Agent{options: options, log: slog.New(slog.DiscardHandler)}
	a.recordSourceError(errors.New("something of this machine"))
	if a.importStatus != (importStatus{}) {
		t.Errorf("a trouble that is not of the source: %+v", a.importStatus)
	}
	a.recordSourceError(&server.SourceError{Kind: server.Rejected, Message: "the password"})
	if a.importStatus != (importStatus{reason: "SourceRejected", message: "the password"}) || a.nextTaskAt != 0 {
		t.Errorf("%+v, rests until %s", a.importStatus, a.nextTaskAt)
	}
	a.own.DataTask = election.Initializing // the next try
	if _, said := a.problem(election.Decision{Reason: "waits for initdb"}); said != "the password" {
		t.Errorf("during the next try: %s", said)
	}
	if _, said := a.problem(election.Decision{Reason: "act", ManualIntervention: true}); said != "act" {
		t.Errorf("of something else: %s", said)
	}
	before := now()
	a.recordSourceError(&server.SourceError{Kind: server.TooLarge, Message: "too large", Expensive: true})
	if a.nextTaskAt < before+expensivePause {
		t.Errorf("a costly try is repeated after %s", a.nextTaskAt-before)
	}
}
