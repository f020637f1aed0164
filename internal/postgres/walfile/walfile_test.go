package walfile

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// serve serves an agent's socket and returns the run directory.
func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "wal") //nolint:usetesting // its path would be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	server := httptest.NewUnstartedServer(handler)
	_ = server.Listener.Close()
	if server.Listener, err = net.Listen("unix", Socket(dir)); err != nil {
		t.Fatal(err)
	}
	server.Start()
	t.Cleanup(server.Close)
	return dir
}

// TestRun_exitCodes holds what PostgreSQL concludes from: only the answer that the store lacks a file may end a recovery, and only a
// failed upload counts as one.
func TestRun_exitCodes(t *testing.T) {
	var answer error
	var path string
	var got Request
	dir := serve(t, func(w http.ResponseWriter, r *http.Request) {
		path, got = r.URL.Path, Request{}
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		if answer != nil {
			http.Error(w, answer.Error(), CodeOf(answer))
		}
	})
	t.Chdir(dir)
	relative, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	other := errors.New("bucket is gone\nsecond line")
	archive, fetch := []string{dir, "archive", "0001"}, []string{dir, "fetch", "0001", "pg_wal/RECOVERYXLOG"}
	for _, c := range []struct {
		args   []string
		answer error
		path   string
		code   int
		says   string
	}{
		{archive, nil, PathArchive, 0, ""},
		{archive, other, PathArchive, ExitFailed, "bucket is gone"},
		{archive, ErrStopping, PathArchive, ExitAgain, "stopping"},
		{[]string{"/nowhere", "archive", "0001"}, nil, "", ExitAgain, "stopping"},
		{fetch, nil, PathFetch, 0, ""},
		{fetch, ErrNoFile, PathFetch, ExitNoFile, "0001: the store does not have the file"},
		{fetch, other, PathFetch, ExitAgain, "bucket is gone"},
		{fetch, ErrStopping, PathFetch, ExitAgain, "stopping"},
		{[]string{"/nowhere", "fetch", "0001", "x"}, nil, "", ExitAgain, "stopping"},
		{nil, nil, "", ExitAgain, "usage:"},
		{[]string{dir, "archive"}, nil, "", ExitAgain, "usage:"},
	} {
		answer, path = c.answer, ""
		code, err := Run(t.Context(), c.args)
		if code != c.code || path != c.path || (err == nil) != (code == 0) || err != nil && (!strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%q, %v: code %d, path %q, error %v", c.args, c.answer, code, path, err)
		}
		want := Request{Name: "0001"}
		if c.path == PathFetch {
			want.Path = filepath.Join(relative, "pg_wal/RECOVERYXLOG")
		}
		if c.path != "" && got != want {
			t.Errorf("%q: %+v", c.args, got)
		}
	}
}

// TestProgram_isSmall holds that the program starts fast: a package of Kubernetes takes longer to initialize than all the rest.
func TestProgram_isSmall(t *testing.T) {
	output, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "../../../cmd/fettle-wal").Output()
	if err != nil {
		t.Fatal(err)
	}
	const module = "github.com/fettle-dev/fettle/"
	if got := strings.Fields(string(output)); len(got) != 2 || got[0] != module+"internal/postgres/walfile" || got[1] != module+"cmd/fettle-wal" {
		t.Errorf("fettle-wal imports %q", got)
	}
}
