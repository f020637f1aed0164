package store

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
)

func inMemory(t *testing.T) (*Store, *blob.Bucket) {
	t.Helper()
	bucket := memblob.OpenBucket(nil)
	s, err := New(bucket, backupv1alpha1.Destination{URI: "s3://bucket/team-a/"}, "shop/nightly")
	if err != nil {
		t.Fatal(err)
	}
	return s, bucket
}

func text(value string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, value)
		return err
	}
}

func names(t *testing.T, s *Store, prefix string) []string {
	t.Helper()
	var found []string
	if err := s.List(t.Context(), prefix, func(name string, _ int64) error {
		found = append(found, name)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

func TestStore_writeReadListDelete(t *testing.T) {
	s, bucket := inMemory(t)
	ctx := t.Context()
	if size, err := s.Write(ctx, "runs/a/x.zst", map[string]string{"sha256": "1"}, text("hello")); err != nil || size != 5 {
		t.Fatal(size, err)
	}
	if s.URI("runs/a") != "s3://bucket/team-a/shop/nightly/runs/a" {
		t.Error(s.URI("runs/a"))
	}
	if ok, err := bucket.Exists(ctx, "team-a/shop/nightly/runs/a/x.zst"); err != nil || !ok {
		t.Error("not at its key", err)
	}
	a, err := s.Attributes(ctx, "runs/a/x.zst")
	if err != nil || a.Size != 5 || a.Metadata["sha256"] != "1" || len(a.Metadata) != 1 {
		t.Error(a, err)
	}
	r, err := s.Read(ctx, "runs/a/x.zst")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil || string(raw) != "hello" {
		t.Error(string(raw), err)
	}
	if err := errors.Join(s.Delete(ctx, "runs/a/x.zst"), s.Delete(ctx, "runs/a/x.zst")); err != nil {
		t.Error(err)
	}
	if _, err := s.Read(ctx, "runs/a/x.zst"); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v, want ErrNotFound", err)
	}
}

func TestStore_failedWriteLeavesOldObject(t *testing.T) {
	s, _ := inMemory(t)
	if _, err := s.Write(t.Context(), "wal/1", nil, text("good")); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("dump failed")
	for _, name := range []string{"wal/1", "wal/2"} {
		if _, err := s.Write(t.Context(), name, nil, func(w io.Writer) error {
			return errors.Join(text("half")(w), broken)
		}); !errors.Is(err, broken) {
			t.Errorf("%v, want the error of the source", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := s.Write(ctx, name, nil, func(w io.Writer) error {
			cancel()
			return text("half")(w)
		}); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want that of the context", err)
		}
	}
	if got := names(t, s, ""); !slices.Equal(got, []string{"wal/1"}) {
		t.Errorf("objects %v", got)
	}
	if a, err := s.Attributes(t.Context(), "wal/1"); err != nil || a.Size != 4 {
		t.Errorf("%v %v", a, err)
	}
}

// attack 43: a destination or a name must not reach another tenant's folder.
func TestStore_craftedNamesAreRefused(t *testing.T) {
	s, bucket := inMemory(t)
	if err := bucket.WriteAll(t.Context(), "team-a/shop/nightly-2/runs/a", []byte("of another Backup"), nil); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"team-a/shop/nightly/../x", "team-a/shop/nightly//y", "team-a/shop/nightly/z\n"} {
		if err := bucket.WriteAll(t.Context(), key, []byte("crafted"), nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(t, s, ""); len(got) > 0 {
		t.Errorf("lists %q", got)
	}
	for _, name := range []string{"", ".", "..", "/", "/a", "a/", "a//b", "a/../b", "../nightly-2/runs/a", "a\\..\\b", "a\x00", "a b", "ä", strings.Repeat("a/", 600) + "a"} {
		_, err := s.Write(t.Context(), name, nil, text("x"))
		_, readErr := s.Read(t.Context(), name)
		_, attributesErr := s.Attributes(t.Context(), name)
		for _, err := range []error{err, readErr, attributesErr, s.Delete(t.Context(), name)} {
			if known := (*Error)(nil); !errors.As(err, &known) || known.Reason != backupv1alpha1.ReasonStoreInvalid {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
	for _, d := range []backupv1alpha1.Destination{
		{URI: "s3://bucket/../x"}, {URI: "s3://bucket/a//b"}, {URI: "s3:///a"}, {URI: "file:///etc"}, {URI: "mem://bucket"}, {Type: "s3", Bucket: "a/../b"},
		{Type: "s3", Bucket: "bucket", Prefix: "../../other-tenant"}, {Type: "s3", Bucket: "bucket", Prefix: "/absolute"}, {Type: "file", Bucket: "bucket"},
		{Type: "s3", Bucket: "bucket", Prefix: "a?b"},
	} {
		if _, err := New(bucket, d, "shop/nightly"); err == nil {
			t.Errorf("%+v: accepted", d)
		}
	}
	for _, folder := range []string{"", "shop", "shop/", "/nightly", "../nightly", "shop/..", "shop/nightly/x", "shop//nightly", "Shop/nightly"} {
		if _, err := New(bucket, backupv1alpha1.Destination{URI: "s3://bucket"}, folder); err == nil {
			t.Errorf("folder %q: accepted", folder)
		}
	}
}

// FuzzKey: every accepted name is a key below the folder, as each of the stores and a file system would resolve it.
func FuzzKey(f *testing.F) {
	for _, name := range []string{"runs/a/manifest.json", "../x", "a/./b", "a//b", "…", "wal/7/00000001/000000010000000000000001.zst", "a/..", ".../x"} {
		f.Add("team-a/", name)
		f.Add(name, "x")
	}
	f.Fuzz(func(t *testing.T, prefix, name string) {
		l, err := newLocation(backupv1alpha1.Destination{Type: backupv1alpha1.StoreS3, Bucket: "bucket", Prefix: prefix}, "shop/nightly")
		if err != nil {
			return
		}
		key, err := l.key(name)
		if err != nil {
			return
		}
		want := strings.TrimSuffix(prefix, "/")
		if want != "" {
			want += "/"
		}
		if !strings.HasPrefix(key, want+"shop/nightly/") || strings.Contains("/"+key+"/", "/../") || strings.Contains("/"+key+"/", "/./") ||
			strings.Contains(key, "//") || strings.ContainsAny(key, "\\%?#\x00") || strings.HasSuffix(key, "/") {
			t.Fatalf("key %q of prefix %q and name %q", key, prefix, name)
		}
	})
}
