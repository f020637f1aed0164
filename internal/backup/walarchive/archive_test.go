package walarchive

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gocloud.dev/blob/memblob"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/store"
)

const (
	first   = "000000010000000000000001"
	system  = "7312345678901234567"
	ownKey  = "shop/db/wal/" + system + "/"
	segment = 1 << 20
)

func newStore(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.New(memblob.OpenBucket(nil), backupv1alpha1.Destination{Type: backupv1alpha1.StoreS3, Bucket: "backups"}, "shop/db")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// file writes a file with contents, which are random if nil.
func file(t *testing.T, content []byte) string {
	t.Helper()
	if content == nil {
		content = make([]byte, segment)
		_, _ = rand.Read(content)
	}
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPut_storesOnce(t *testing.T) {
	a := New(newStore(t), system)
	for name, want := range map[string]string{ // "" if other contents are accepted
		first:                          "conflict",
		first + ".partial":             "",
		"00000002.history":             "conflict",
		first + ".00000028.backup":     "",
		"../../../etc/passwd":          "invalid",
		"RECOVERYXLOG":                 "invalid",
		"000000010000000000000001.zst": "invalid",
	} {
		t.Run(name, func(t *testing.T) {
			content := []byte("1\t0/3000000\tpromoted\n")
			err := a.Put(t.Context(), name, file(t, content))
			if want == "invalid" {
				if err == nil {
					t.Fatal("was stored")
				}
				return
			}
			if again := a.Put(t.Context(), name, file(t, content)); err != nil || again != nil {
				t.Fatalf("put: %v, again: %v", err, again)
			}
			conflict := (*ConflictError)(nil)
			if err := a.Put(t.Context(), name, file(t, nil)); errors.As(err, &conflict) != (want == "conflict") || err != nil && want == "" {
				t.Fatalf("other contents: %v", err)
			}
			to := filepath.Join(t.TempDir(), "to")
			if err := a.Get(t.Context(), name, to); err != nil {
				t.Fatal(err)
			}
			if got, _ := os.ReadFile(to); !bytes.Equal(got, content) {
				t.Errorf("the store has %q", got)
			}
		})
	}
}

// TestPut_changedFile: a file that changes after its checksum was taken is not stored under it.
func TestPut_changedFile(t *testing.T) {
	path := file(t, []byte("first"))
	c, err := read(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.writer(true)(io.Discard); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.writer(true)(io.Discard); err == nil {
		t.Error("it counts as stored")
	}
}

// TestPut_reservation: a history that only reserves a timeline never replaces a history, and a history replaces a reservation.
func TestPut_reservation(t *testing.T) {
	a := New(newStore(t), system)
	reservation, history := file(t, []byte("# left out\n")), file(t, []byte("1\t0/3000000\tpromoted\n"))
	for i, path := range []string{reservation, reservation, history, reservation, history} {
		if err := a.Put(t.Context(), "00000003.history", path); err != nil {
			t.Fatalf("put %d: %v", i, err)
		}
	}
	to := filepath.Join(t.TempDir(), "to")
	if err := a.Get(t.Context(), "00000003.history", to); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(to); !strings.Contains(string(got), "promoted") {
		t.Errorf("the store has %q", got)
	}
}

// TestGet_damaged changes each byte range of an object. What is fetched is either right or an error, and no file appears.
func TestGet_damaged(t *testing.T) {
	bucket := memblob.OpenBucket(nil)
	s, err := store.New(bucket, backupv1alpha1.Destination{Type: backupv1alpha1.StoreS3, Bucket: "backups"}, "shop/db")
	if err != nil {
		t.Fatal(err)
	}
	a, key := New(s, system), ownKey+"00000001/"+first+".zst"
	if err := a.Put(t.Context(), first, file(t, bytes.Repeat([]byte("WAL record "), 10000))); err != nil {
		t.Fatal(err)
	}
	whole, err := bucket.ReadAll(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	attributes, err := bucket.Attributes(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	other, err := bucket.ReadAll(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	other[len(other)/2] ^= 0x40
	for what, content := range map[string][]byte{"empty": {}, "truncated": whole[:len(whole)-3], "changed": other, "not compressed": []byte("text")} {
		w, err := bucket.NewWriter(t.Context(), key, nil)
		if err == nil {
			_, err = w.Write(content)
		}
		if err := errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(t.TempDir(), "to")
		if err := a.Get(t.Context(), first, to); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
		if left, _ := filepath.Glob(to + "*"); len(left) > 0 {
			t.Errorf("%s: left %v", what, left)
		}
	}
	if attributes.Metadata[metadataSum] == "" {
		t.Error("no checksum in the metadata")
	}
	if err := a.Get(t.Context(), "000000010000000000000002", filepath.Join(t.TempDir(), "to")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("missing segment: %v", err)
	}
}

func TestDeleteBefore_keepsWhatIsNeeded(t *testing.T) {
	s := newStore(t)
	a, stranger := New(s, system), New(s, "1")
	names := []string{
		first, "000000010000000000000002", "000000010000000000000002.00000028.backup", "000000010000000000000003", "000000010000000000000003.partial",
		"00000002.history", "000000020000000000000002", "000000020000000000000003", "00000002000000010000000A",
	}
	for _, name := range names {
		if err := errors.Join(a.Put(t.Context(), name, file(t, []byte(name))), stranger.Put(t.Context(), name, file(t, []byte(name)))); err != nil {
			t.Fatal(err)
		}
	}
	deleted, err := a.DeleteBefore(t.Context(), "000000020000000000000003")
	if err != nil || deleted != 4 {
		t.Fatalf("deleted %d, %v", deleted, err)
	}
	var left []string
	for _, name := range names {
		if has, err := a.Has(t.Context(), name); err != nil {
			t.Fatal(err)
		} else if has {
			left = append(left, name)
		}
		if has, err := stranger.Has(t.Context(), name); err != nil || !has {
			t.Errorf("%s of another system: %v, %v", name, has, err)
		}
	}
	want := []string{"000000010000000000000003", "000000010000000000000003.partial", "00000002.history", "000000020000000000000003", "00000002000000010000000A"}
	if !slices.Equal(left, want) {
		t.Errorf("left %v", left)
	}
}

func TestList(t *testing.T) {
	s := newStore(t)
	a, stranger := New(s, system), New(s, "1")
	for _, name := range []string{"000000020000000000000003", "00000002000000010000000A", "000000020000000000000003.partial", "00000003.history"} {
		if err := errors.Join(a.Put(t.Context(), name, file(t, []byte(name))), stranger.Put(t.Context(), name, file(t, []byte(name)))); err != nil {
			t.Fatal(err)
		}
	}
	timelines, err := a.Timelines(t.Context())
	if err != nil || !slices.Equal(timelines, []uint32{2, 3}) {
		t.Errorf("timelines %v, %v", timelines, err)
	}
	var segments []string
	err = a.Segments(t.Context(), 2, func(name string) error { segments = append(segments, name); return nil })
	if err != nil || !slices.Equal(segments, []string{"000000020000000000000003", "00000002000000010000000A"}) {
		t.Errorf("segments %v, %v", segments, err)
	}
	systems, err := Systems(t.Context(), s)
	if err != nil || !slices.Equal(systems, []string{"1", system}) {
		t.Errorf("systems %v, %v", systems, err)
	}
}

func TestNext(t *testing.T) {
	for _, c := range []struct {
		name string
		size int64
		want string
	}{
		{first, 16 << 20, "000000010000000000000002"},
		{"0000000A00000001000000FF", 16 << 20, "0000000A0000000200000000"},
		{"0000000100000001000000FF", 1 << 20, "000000010000000100000100"},
		{"000000010000000100000FFF", 1 << 20, "000000010000000200000000"},
		{"000000010000000000000003", 1 << 30, "000000010000000100000000"},
	} {
		if got, err := Next(c.name, c.size); got != c.want || err != nil {
			t.Errorf("after %s of %d bytes: %s, %v", c.name, c.size, got, err)
		}
	}
}

// TestFetcher fetches as a recovery does: past the end of the archive, which then grows.
func TestFetcher(t *testing.T) {
	a := New(newStore(t), system)
	names, name := []string{}, first
	for range 12 {
		names = append(names, name)
		name, _ = Next(name, segment)
	}
	for _, name := range names[:10] {
		if err := a.Put(t.Context(), name, file(t, nil)); err != nil {
			t.Fatal(err)
		}
	}
	folder := filepath.Join(t.TempDir(), "wal")
	f, err := NewFetcher(a, folder)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		to := filepath.Join(t.TempDir(), "RECOVERYXLOG")
		err := f.Get(t.Context(), name, to)
		if i >= 10 {
			if !errors.Is(err, store.ErrNotFound) {
				t.Fatalf("%s: %v", name, err)
			}
			err = errors.Join(a.Put(t.Context(), name, file(t, nil)), f.Get(t.Context(), name, to))
		}
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(to); err != nil || info.Size() != segment {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Error("the folder was left")
	}
}
