package layer

import (
	"archive/tar"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"
)

// headers returns the tar headers of a set's layer by path.
func headers(t *testing.T, set Set) map[string]*tar.Header {
	t.Helper()
	l, err := set.Layer()
	if err != nil {
		t.Fatal(err)
	}
	content, err := l.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	found := map[string]*tar.Header{}
	for reader := tar.NewReader(content); ; {
		header, err := reader.Next()
		if err == io.EOF {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		found[header.Name] = header
	}
}

func digest(t *testing.T, set Set) v1.Hash {
	t.Helper()
	image, err := Image(nil, "amd64", func(c *v1.Config) { c.User = "65532" }, set)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

func TestImage_sameContentSameDigest(t *testing.T) {
	build := func(modified time.Time) v1.Hash {
		dir := t.TempDir()
		for _, name := range []string{"b", "a", "sub/c"} {
			file := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte("content of "+name), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(file, modified, modified); err != nil {
				t.Fatal(err)
			}
		}
		set := Set{}
		if err := set.AddTree(dir, "/data", RootOwner, nil); err != nil {
			t.Fatal(err)
		}
		return digest(t, set)
	}
	first, second := build(time.Now()), build(time.Now().Add(-time.Hour))
	if first != second {
		t.Errorf("the same files in another directory and with other timestamps have the digests %s and %s", first, second)
	}
}

func TestImage_otherContentOtherDigest(t *testing.T) {
	base := Set{}
	base.Add(Text("/a", "one", 0o644))
	want := digest(t, base)
	for name, change := range map[string]Entry{
		"content": Text("/a", "two", 0o644),
		"mode":    Text("/a", "one", 0o755),
		"owner":   {Path: "/a", Mode: 0o644, UID: 1, Size: 3, Open: base["/a"].Open},
		"more":    Text("/b", "", 0o644),
	} {
		set := Set{}
		set.Add(base["/a"], change)
		if digest(t, set) == want {
			t.Errorf("%s: the changed image has the same digest", name)
		}
	}
}

func TestLayer_addsMissingParents(t *testing.T) {
	set := Set{}
	set.Add(Text("/a/b/c", "x", 0o600), Dir("/a", 0o1777), Symlink("/a/link", "b/c"))
	modes := map[string]int64{}
	for name, header := range headers(t, set) {
		modes[name] = header.Mode
	}
	want := map[string]int64{"a/": 0o1777, "a/b/": 0o755, "a/b/c": 0o600, "a/link": 0o777}
	if diff := cmp.Diff(want, modes); diff != "" {
		t.Errorf("modes (-want +got):\n%s", diff)
	}
}

func TestAddTree_keepsLinksAndModes(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, mode os.FileMode) {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(file, []byte(name), 0o600), os.Chmod(file, mode)); err != nil {
			t.Fatal(err)
		}
	}
	write("program", 0o755|os.ModeSetuid)
	write("secret", 0o600)
	write("skipped", 0o644)
	if err := errors.Join(
		os.Link(filepath.Join(dir, "secret"), filepath.Join(dir, "second")),
		unix.Mkfifo(filepath.Join(dir, "pipe"), 0o644),
	); err != nil {
		t.Fatal(err)
	}
	set := Set{}
	if err := set.AddTree(dir, "/x", KeepOwner, func(name string) bool { return name == "/x/skipped" }); err != nil {
		t.Fatal(err)
	}
	found := headers(t, set)
	if got := found["x/program"].Mode; got != 0o4755 {
		t.Errorf("setuid program has mode %o", got)
	}
	if got := found["x/secret"]; got.Typeflag != tar.TypeLink || got.Linkname != "x/second" {
		t.Errorf("x/secret has type %c and target %q, want a hard link to x/second", got.Typeflag, got.Linkname)
	}
	if got := found["x/secret"].Uid; got != os.Getuid() {
		t.Errorf("owner is %d, want %d", got, os.Getuid())
	}
	for _, name := range []string{"x/skipped", "x/pipe"} {
		if _, ok := found[name]; ok {
			t.Errorf("%s is in the layer", name)
		}
	}
}

func TestAddTree_whiteouts(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("creating a whiteout needs root")
	}
	dir := t.TempDir()
	if err := unix.Mknod(filepath.Join(dir, "gone"), unix.S_IFCHR, 0); err != nil {
		t.Fatal(err)
	}
	opaque := filepath.Join(dir, "opaque")
	if err := os.Mkdir(opaque, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Lsetxattr(opaque, "trusted.overlay.opaque", []byte("y"), 0); err != nil {
		t.Skipf("this file system has no trusted attributes: %v", err)
	}
	set := Set{}
	if err := set.AddTree(dir, "/", RootOwner, nil); err != nil {
		t.Fatal(err)
	}
	found := headers(t, set)
	for _, name := range []string{".wh.gone", "opaque/", "opaque/.wh..wh..opq"} {
		if _, ok := found[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
}

func TestSubtree(t *testing.T) {
	set := Set{}
	set.Add(Text("/configs/a", "1", 0o644), Text("/configs-other", "2", 0o644), Text("/configs/sub/b", "3", 0o644))
	got := slices.Sorted(maps.Keys(set.Subtree("/configs", "/moved")))
	if diff := cmp.Diff([]string{"/moved/a", "/moved/sub/b"}, got); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}
