package server

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// maxArchive is more than the archives of the tests have, in bytes.
const maxArchive = 1 << 20

// archive is a tar archive with the entries.
func archive(t testing.TB, entries ...tar.Header) *bytes.Buffer {
	t.Helper()
	out := &bytes.Buffer{}
	w := tar.NewWriter(out)
	for _, e := range entries {
		if e.Typeflag == tar.TypeReg {
			e.Size = int64(len(e.Name))
		}
		if err := w.WriteHeader(&e); err != nil {
			t.Fatal(err)
		}
		if e.Size > 0 {
			if _, err := w.Write([]byte(e.Name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out
}

func file(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeReg} }

// TestExtract_hostileArchives: attack 46, a backup in the store was replaced.
func TestExtract_hostileArchives(t *testing.T) {
	t.Parallel()
	label := file(backupLabel)
	for name, entries := range map[string][]tar.Header{
		"parent":        {file("../evil"), label},
		"inner parent":  {file("base/../../evil"), label},
		"absolute":      {file("/evil"), label},
		"backslash":     {file(`base\evil`), label},
		"symbolic link": {{Name: "base", Typeflag: tar.TypeSymlink, Linkname: ".."}, file("base/evil"), label},
		"hard link":     {{Name: "evil", Typeflag: tar.TypeLink, Linkname: "../secret"}, label},
		"device":        {{Name: "evil", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}, label},
		"pipe":          {{Name: "evil", Typeflag: tar.TypeFifo}, label},
		"tablespace":    {{Name: "pg_tblspc/1", Typeflag: tar.TypeSymlink, Linkname: "/"}, label},
		"its map":       {file("tablespace_map"), label},
		"no label":      {file("PG_VERSION")},
		"empty":         {},
	} {
		volume := t.TempDir()
		err := (&Server{}).extract(t.Context(), archive(t, entries...), filepath.Join(volume, "clone"), maxArchive)
		if problem, ok := errors.AsType[*SourceError](err); !ok || problem.Kind != BackupDamaged {
			t.Errorf("%s: %v", name, err)
		}
		if found, _ := filepath.Glob(filepath.Join(volume, "evil")); found != nil {
			t.Errorf("%s: a file outside of the directory", name)
		}
	}
	if err := (&Server{}).extract(t.Context(), archive(t, label, label), filepath.Join(t.TempDir(), "clone"), maxArchive); !errors.Is(err, os.ErrExist) {
		t.Errorf("the same file twice: %v", err)
	}
}

// TestExtract_noSettings: attack 46, settings of a backup run commands.
func TestExtract_noSettings(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "clone")
	from := archive(t, file("./"+backupLabel), file("postgresql.auto.conf"), file("postgresql.conf"), file("pg_hba.conf"), file("recovery.signal"),
		file("standby.signal"), file("./recovery.conf"), file("pg_wal/000000010000000000000001"), tar.Header{Name: "pg_wal/archive_status/", Typeflag: tar.TypeDir},
		file("base/1/postgresql.conf"))
	if err := (&Server{}).extract(t.Context(), from, dir, maxArchive); err != nil {
		t.Fatal(err)
	}
	var found []string
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			found = append(found, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	})
	if err != nil || strings.Join(found, " ") != "backup_label base/1/postgresql.conf" {
		t.Errorf("%v, %v", found, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "pg_wal/archive_status")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestExtract_holes: attack 46, an archive of some bytes whose file is as large as a disk, and one with many such files.
func TestExtract_holes(t *testing.T) {
	t.Parallel()
	const half = maxArchive / 2
	for name, c := range map[string]struct {
		files []int64
		fits  bool
	}{
		"within the size": {[]int64{half}, true}, "endless": {[]int64{1 << 50}, false}, "several": {[]int64{half, half, half}, false},
	} {
		dir := filepath.Join(t.TempDir(), "clone")
		err := (&Server{}).extract(t.Context(), sparse(t, c.files...), dir, maxArchive)
		if problem, ok := errors.AsType[*SourceError](err); c.fits != (err == nil) || err != nil && (!ok || problem.Kind != BackupDamaged) {
			t.Errorf("%s: %v", name, err)
		}
		written := int64(0)
		for i := range c.files {
			if info, err := os.Stat(filepath.Join(dir, "base", strconv.Itoa(i))); err == nil {
				written += info.Size()
			}
		}
		if written > maxArchive || c.fits && written != half {
			t.Errorf("%s: the files have %d bytes", name, written)
		}
	}
}

// TestRecovery_checkSize: attack 46, a manifest with any size.
func TestRecovery_checkSize(t *testing.T) {
	t.Parallel()
	const free = 10 << 30
	for size, fits := range map[int64]bool{0: true, free - copyReserve: true, free - copyReserve + 1: false, free: false, math.MaxInt64: false} {
		err := Recovery{What: "backup shop", Size: size}.checkSize(Disk{Size: free, Free: free})
		if problem, ok := errors.AsType[*SourceError](err); fits != (err == nil) || err != nil && (!ok || problem.Kind != TooLarge) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// sparse is an archive whose files consist of one hole each, in the format of GNU tar.
func sparse(t *testing.T, sizes ...int64) *bytes.Buffer {
	t.Helper()
	out := &bytes.Buffer{}
	w := tar.NewWriter(out)
	for i, size := range sizes {
		blocks := make([]byte, 512)
		copy(blocks, fmt.Sprintf("1\n%d\n0\n", size))
		// The library does not write such records: another word of the same length stands for GNU.
		if err := w.WriteHeader(&tar.Header{Name: "base/" + strconv.Itoa(i), Typeflag: tar.TypeReg, Size: int64(len(blocks)), Format: tar.FormatPAX, PAXRecords: map[string]string{
			"ABC.sparse.major": "1", "ABC.sparse.minor": "0", "ABC.sparse.realsize": strconv.FormatInt(size, 10), "ABC.sparse.name": "base/" + strconv.Itoa(i),
		}}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(blocks); err != nil {
			t.Fatal(err)
		}
	}
	label := file(backupLabel)
	label.Size = int64(len(label.Name))
	if err := w.WriteHeader(&label); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(label.Name)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return bytes.NewBuffer(bytes.ReplaceAll(out.Bytes(), []byte("ABC.sparse"), []byte("GNU.sparse")))
}

// FuzzEntryName: no accepted name leaves the directory.
func FuzzEntryName(f *testing.F) {
	for _, name := range []string{"base/1/2", "./PG_VERSION", "../x", "a/../../x", "/x", "", ".", "a//b/", "a\x00b", `..\x`} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		clean, err := entryName(name)
		if err != nil {
			return
		}
		if joined := filepath.Join("/data", clean); joined != "/data" && !strings.HasPrefix(joined, "/data/") || strings.Contains(clean, "\x00") {
			t.Errorf("%q becomes %q", name, joined)
		}
	})
}

// FuzzExtract: no archive writes outside of the directory.
func FuzzExtract(f *testing.F) {
	f.Add(archive(f, file("base/1"), file(backupLabel)).Bytes())
	f.Add(archive(f, file("../evil"), tar.Header{Name: "x", Typeflag: tar.TypeSymlink, Linkname: "/"}, file("x/evil")).Bytes())
	f.Fuzz(func(t *testing.T, content []byte) {
		volume := t.TempDir()
		_ = (&Server{}).extract(t.Context(), bytes.NewReader(content), filepath.Join(volume, "clone"), maxArchive)
		if entries, err := os.ReadDir(volume); err != nil || len(entries) > 1 {
			t.Errorf("%v, %v", entries, err)
		}
	})
}
