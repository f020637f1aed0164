package runner

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"

	"gocloud.dev/blob/memblob"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/archive"
	"github.com/fettle-dev/fettle/internal/backup/job"
	"github.com/fettle-dev/fettle/internal/backup/manifest"
	"github.com/fettle-dev/fettle/internal/backup/progress"
	"github.com/fettle-dev/fettle/internal/backup/store"
)

func uploadRun(t *testing.T) *run {
	t.Helper()
	s, err := store.New(memblob.OpenBucket(nil), backupv1alpha1.Destination{URI: "s3://bucket"}, "shop/db")
	if err != nil {
		t.Fatal(err)
	}
	return &run{
		Options: Options{Log: slog.New(slog.DiscardHandler), SegmentSize: 1 << 20}, config: &job.Config{Object: "one"},
		store: s, progress: progress.New(noReport{}.Progress), secrets: &redactor{},
	}
}

func (r *run) stored(t *testing.T) (names []string) {
	t.Helper()
	if err := r.store.List(t.Context(), "", func(name string, _ int64) error { names = append(names, name); return nil }); err != nil {
		t.Fatal(err)
	}
	return names
}

func accept(context.Context, io.Reader) error { return nil }

func sourceOf(raw []byte) source {
	return func(_ context.Context, out io.Writer) error {
		_, err := io.Copy(out, bytes.NewReader(raw))
		return err
	}
}

// TestUpload_segments: what is too large for one object is stored in several, and each number of segments is read back.
func TestUpload_segments(t *testing.T) {
	r := uploadRun(t)
	raw := make([]byte, 3<<20) // of random bytes, which zstd cannot compress
	random := rand.New(rand.NewPCG(1, 2))
	for i := range raw {
		raw[i] = byte(random.Uint32())
	}
	names := []string{"runs/one/a.dump.zst", "runs/one/a.dump.zst.0001", "runs/one/a.dump.zst.0002", "runs/one/a.dump.zst.0003"}
	plain := []string{"runs/one/a.dump", "runs/one/a.dump.0001", "runs/one/a.dump.0002"}
	for _, test := range []struct {
		size        int
		compression backupv1alpha1.Compression
		want        []string
	}{
		{3 << 20, backupv1alpha1.CompressionZstd, names}, // with the headers of zstd, and 3 segments are full
		{2 << 20, backupv1alpha1.CompressionZstd, names[:3]},
		{1000, backupv1alpha1.CompressionZstd, names[:1]},
		{3 << 20, backupv1alpha1.CompressionNone, plain}, // the last one is full
		{1 << 20, backupv1alpha1.CompressionNone, plain[:1]},
	} {
		// An attempt before this one has stored more.
		part, err := r.upload(t.Context(), "a.dump", archive.Options{Compression: test.compression}, sourceOf(raw[:test.size]), accept)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.stored(t); !slices.Equal(got, test.want) {
			t.Errorf("%d bytes are stored as %q, want %q", test.size, got, test.want)
		}
		if segments := len(part.Segments); segments != len(test.want) && (segments != 0 || len(test.want) != 1) {
			t.Errorf("%d segments in the part, want %d", segments, len(test.want))
		}
		body, err := manifest.Open(t.Context(), r.store, "one", part)
		if err != nil {
			t.Fatal(err)
		}
		content, err := archive.NewReader(body, part.Name, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(content); err != nil || !bytes.Equal(got, raw[:test.size]) || content.Verify(part.Size, part.SHA256) != nil {
			t.Errorf("read %d of %d bytes: %v", len(got), test.size, err)
		}
		if test.size == 1000 { // another name follows
			r.removeParts(t.Context(), "one")
		}
	}
}

// TestUpload_failures: the error is that of the source or the check, however many segments are stored, and nothing of them remains.
func TestUpload_failures(t *testing.T) {
	broken, raw := errors.New("connection lost"), make([]byte, 5<<19)
	for name, test := range map[string]struct {
		from  source
		check check
		want  error
	}{
		"source": {func(ctx context.Context, out io.Writer) error {
			return errors.Join(sourceOf(raw)(ctx, out), broken)
		}, accept, broken},
		"source at the end of a segment": {func(ctx context.Context, out io.Writer) error {
			return errors.Join(sourceOf(raw[:2<<20])(ctx, out), broken)
		}, accept, broken},
		"check": {sourceOf(raw), func(_ context.Context, in io.Reader) error {
			_, err := io.CopyN(io.Discard, in, 3<<19)
			return errors.Join(err, io.ErrUnexpectedEOF)
		}, nil},
		"empty": {sourceOf(nil), accept, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := uploadRun(t)
			_, err := r.upload(t.Context(), "a.dump", archive.Options{}, test.from, test.check)
			if failure, ok := errors.AsType[*Error](err); test.want == nil && (!ok || failure.Reason != backupv1alpha1.ReasonDumpInvalid) {
				t.Errorf("%v, want a dump that is not complete", err)
			} else if test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("%v, want %v", err, test.want)
			}
			if r.removeParts(t.Context(), "one"); len(r.stored(t)) > 0 {
				t.Errorf("%q remain", r.stored(t))
			}
		})
	}
}

// TestUpload_readBack: a store that lost or changed a segment has no backup.
func TestUpload_readBack(t *testing.T) {
	r := uploadRun(t)
	part, err := r.upload(t.Context(), "a.dump", archive.Options{}, sourceOf(make([]byte, 5<<19)), accept)
	if err != nil {
		t.Fatal(err)
	}
	wants := func(name string) {
		t.Helper()
		if failure, ok := errors.AsType[*Error](r.readBack(t.Context(), part)); !ok || failure.Reason != backupv1alpha1.ReasonStoredDiffers {
			t.Errorf("%s: %v, want StoredDiffers", name, failure)
		}
	}
	if _, err := r.store.Write(t.Context(), r.object("a.dump.0001"), nil, func(w io.Writer) error {
		_, err := w.Write(append(make([]byte, 1<<20-1), 1))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	wants("changed")
	if err := r.store.Delete(t.Context(), r.object("a.dump.0002")); err != nil {
		t.Fatal(err)
	}
	wants("missing")
}
