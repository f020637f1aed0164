package agent

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/pki"
)

// TestTLS_servedCertificate has PostgreSQL show an issuer's certificate while there is one, and the agents keep their own.
func TestTLS_servedCertificate(t *testing.T) {
	own, a := authorityWith(t, "own")
	_, b := authorityWith(t, "foreign")
	files := &tlsFiles{from: t.TempDir(), to: t.TempDir()}
	put := func(folder, name string, content []byte) {
		t.Helper()
		putFile(t, filepath.Join(files.to, folder, "old"), nil) // the folder is there
		putFile(t, filepath.Join(files.from, folder, name), content)
	}
	copied := func(what string, want pki.Pair, changes bool) {
		t.Helper()
		changed, err := files.Copy()
		if err != nil || changed != changes {
			t.Errorf("%s: changed %v, %v", what, changed, err)
		}
		for name, content := range map[string][]byte{"tls.crt": want.Certificate, "tls.key": want.Key, "ca.crt": own.Certificate} {
			got, err := os.ReadFile(files.path(folderServer, name))
			if err != nil || string(got) != string(content) {
				t.Errorf("%s: %s: %v %s", what, name, err, got)
			}
		}
	}
	for _, folder := range []string{folderServer, folderReplication} {
		put(folder, "ca.crt", own.Certificate)
		put(folder, "tls.crt", a.Certificate)
		put(folder, "tls.key", a.Key)
	}
	copied("its own", a, true)
	put(folderServer, "served.crt", b.Certificate)
	put(folderServer, "served.key", b.Key)
	copied("an issuer's", b, true)
	copied("again", b, false)
	if got, err := os.ReadFile(filepath.Join(files.from, folderServer, "tls.crt")); err != nil || string(got) != string(a.Certificate) {
		t.Errorf("the agents' own is %s, %v", got, err)
	}
	for _, name := range []string{"served.crt", "served.key"} {
		if err := os.Remove(filepath.Join(files.from, folderServer, name)); err != nil {
			t.Fatal(err)
		}
	}
	copied("no issuer any more", a, true)
}

// authorityWith makes an authority, and a server's certificate of it.
func authorityWith(t *testing.T, name string) (*pki.CA, pki.Pair) {
	t.Helper()
	authority, err := pki.NewCA(name, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Server(pki.Hosts("db", "shop"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return authority, pair
}

// putFile writes a file, and makes its folder.
func putFile(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
