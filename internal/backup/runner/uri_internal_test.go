package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/job"
)

// withURI returns a run whose Secret has this URI.
func withURI(t *testing.T, uri string) *run {
	t.Helper()
	r := &run{Options: Options{Root: t.TempDir()}, secrets: &redactor{}}
	folder := r.path(job.DirServerURI)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "uri"), []byte(uri), 0o600); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestReadURI(t *testing.T) {
	const (
		pg, my, mongo = backupv1alpha1.ServerPostgreSQL, backupv1alpha1.ServerMySQL, backupv1alpha1.ServerMongoDB
		prefer        = backupv1alpha1.TLSPrefer
	)
	shop := []job.Database{{Name: "shop", Login: -1}}
	for uri, want := range map[string]job.Server{
		"postgresql://app:p%40ss@db.example.com/shop":                   {Type: pg, Host: "db.example.com", Port: 5432, TLS: prefer, Databases: shop},
		"postgres://app:p%40ss@db:6432/shop?sslmode=require&pool=5\n":   {Type: pg, Host: "db", Port: 6432, TLS: backupv1alpha1.TLSRequire, Databases: shop},
		"postgresql://app:p%40ss@[2001:db8::1]:5433/shop?sslmode=allow": {Type: pg, Host: "2001:db8::1", Port: 5433, TLS: prefer, Databases: shop},
		"mysql://app:p%40ss@db/shop?ssl-mode=verify_ca":                 {Type: my, Host: "db", Port: 3306, TLS: backupv1alpha1.TLSVerifyCA, Databases: shop},
		"mariadb://app:p%40ss@db:3307/shop?ssl-mode=DISABLED":           {Type: my, Host: "db", Port: 3307, TLS: backupv1alpha1.TLSDisable, Databases: shop},
		"mongodb://app:p%40ss@a:27017,b/shop?replicaSet=rs0":            {Type: mongo, Host: "a:27017,b", TLS: prefer, Databases: shop},
		"mongodb+srv://app:p%40ss@db.example.com/shop":                  {Type: mongo, Host: "db.example.com", TLS: prefer, Databases: shop},
	} {
		r := withURI(t, uri)
		want.FromURI, want.VerifyCA = true, true
		got := job.Server{Type: want.Type, FromURI: true, VerifyCA: true, TLS: prefer, Port: map[backupv1alpha1.ServerType]int32{pg: 5432, my: 3306, mongo: 27017}[want.Type]}
		if err := r.readURI(&got); err != nil {
			t.Errorf("%s: %v", uri, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", uri, diff)
		}
		if l, err := r.login(got, got.Databases[0]); err != nil || l != (login{"app", "p@ss"}) {
			t.Errorf("%s: login %+v (%v)", uri, l, err)
		}
		if text := r.secrets.redact("p@ss p%40ss"); strings.Contains(text, "ss") {
			t.Errorf("%s: the password is in %q", uri, text)
		}
	}
}

// TestReadURI_otherEncoding checks that the password is a secret in the encoding that programs get, too.
func TestReadURI_otherEncoding(t *testing.T) {
	r := withURI(t, "mongodb://app:%70%3Ass@a/shop")
	s := job.Server{Type: backupv1alpha1.ServerMongoDB, FromURI: true}
	if err := r.readURI(&s); err != nil {
		t.Fatal(err)
	}
	if text := r.secrets.redact(r.uri.mongoDB("")); !strings.Contains(text, "//app:***@a") {
		t.Errorf("the password is in %q", text)
	}
}

// TestReadURI_rejected checks that each message says what to correct, and has no part of the password.
func TestReadURI_rejected(t *testing.T) {
	for uri, want := range map[string]string{
		"":                                                       "not of the form",
		"db.example.com":                                         "not of the form",
		"mysql://app:secret@db/shop":                             "scheme must be postgresql or postgres",
		"postgresql://app:secret@/shop":                          "no host",
		"postgresql://app@db/shop":                               "no password",
		"postgresql://app:secret@db":                             "connection.database",
		"postgresql://app:secret@db/--all":                       "connection.database",
		"postgresql://app:secret@db/a%2F..":                      "connection.database",
		"postgresql://app:secret@a,b/shop":                       "several hosts",
		"postgresql://app:secret@db:99999/shop":                  "port",
		"postgresql://app:sec/ret@db/shop":                       "percent form",
		"postgresql://app:sec%ret@db/shop":                       "percent form",
		"postgresql://app:secret@db/shop?sslmode=verify-full":    "caSecretRef",
		"postgresql://app:secret@db/shop?sslmode=always":         "sslmode",
		"postgresql://app:secret@db/shop?sslrootcert=/etc/hosts": `"sslrootcert" is not supported`,
		"postgresql://app:secret@db/shop?hostaddr=10.0.0.1":      `"hostaddr" is not supported`,
	} {
		s := job.Server{Type: backupv1alpha1.ServerPostgreSQL, FromURI: true, Port: 5432}
		r := withURI(t, uri)
		err := r.readURI(&s)
		if err == nil {
			t.Errorf("%s: accepted as %+v", uri, s)
			continue
		}
		e := r.failure(err)
		found := false
		for part := range strings.SplitSeq(want, " or ") {
			found = found || strings.Contains(e.Message, part)
		}
		if !found || !e.Permanent || strings.Contains(e.Message, "sec") && strings.Contains(e.Message, "ret@") {
			t.Errorf("%s: %v, want %q", uri, e, want)
		}
	}
}

// TestMongoDB_uri checks the URI that MongoDB's programs get.
func TestMongoDB_uri(t *testing.T) {
	for uri, want := range map[string]string{
		"mongodb://app:p%40ss@a,b:27018/shop?replicaSet=rs0":     "mongodb://app:p%40ss@a,b:27018/?appName=fettle-backup&authSource=shop&replicaSet=rs0&tls=true&tlsCAFile=CA",
		"mongodb://app:p%40ss@a/shop?authSource=users&tls=false": "mongodb://app:p%40ss@a/?appName=fettle-backup&authSource=users&tls=false",
		"mongodb+srv://app:p%40ss@a/?authMechanism=PLAIN":        "connection.database",
		"mongodb://a/shop":                                                 "mongodb://a/?appName=fettle-backup&tls=true&tlsCAFile=CA",
		"mongodb://app:x@a/shop?authMechanism=PLAIN":                       "mongodb://app:x@a/?appName=fettle-backup&authMechanism=PLAIN&tls=true&tlsCAFile=CA",
		"mongodb://app:x@a/shop?tls=true&tlsCertificateKeyFile=/etc/hosts": "connection.tls.caSecretRef",
	} {
		r := withURI(t, uri)
		s := job.Server{Type: backupv1alpha1.ServerMongoDB, FromURI: true, VerifyCA: true}
		if err := r.readURI(&s); err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", uri, err)
			}
			continue
		}
		if got := strings.ReplaceAll(r.uri.mongoDB("CA"), "%2F", "/"); got != want {
			t.Errorf("%s: got %s\nwant %s", uri, got, want)
		}
	}
}
