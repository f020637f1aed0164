package agent

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/pki"
	"github.com/fettle-dev/fettle/internal/postgres/server"
)

// TestTLS_unusableCertificates checks that they don't replace good ones, and are better than none.
func TestTLS_unusableCertificates(t *testing.T) {
	authority, err := pki.NewCA("db", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pairAt := func(at time.Time) pki.Pair {
		pair, err := authority.Server([]string{"localhost"}, at)
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
	good, ended := pairAt(time.Now()), pairAt(time.Now().Add(-10*365*24*time.Hour))
	files := &tlsFiles{from: t.TempDir(), to: t.TempDir()}
	write := func(pair pki.Pair) {
		for _, folder := range []string{folderServer, folderReplication} {
			for name, content := range map[string][]byte{"tls.crt": pair.Certificate, "tls.key": pair.Key, "ca.crt": authority.Certificate} {
				if err := server.WriteFile(filepath.Join(files.from, folder, name), content); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, c := range []struct {
		name, complaint string
		pair, want      pki.Pair
		changed         bool
	}{
		{"one that has ended is better than none", "expired at", ended, ended, true},
		{"a good one", "", good, good, true},
		{"again", "", good, good, false},
		{"one that has ended", "expired at", ended, good, false},
		{"a key of another", "do not match", pki.Pair{Certificate: good.Certificate, Key: ended.Key}, good, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			write(c.pair)
			changed, err := files.Copy()
			if changed != c.changed || !complains(err, c.complaint) {
				t.Errorf("changed %v, %v", changed, err)
			}
			if got, err := os.ReadFile(files.path(folderServer, "tls.crt")); err != nil || !bytes.Equal(got, c.want.Certificate) {
				t.Errorf("another certificate is in use: %v", err)
			}
		})
	}
}

// complains says that an error has the words, or that there is none for none.
func complains(err error, words string) bool {
	if err == nil || words == "" {
		return err == nil && words == ""
	}
	return strings.Contains(err.Error(), words)
}
