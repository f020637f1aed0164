package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"path"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/fettle-dev/fettle/internal/backup/archive"
	"github.com/fettle-dev/fettle/internal/backup/store"
)

func segmentsOf(part string, sizes ...int64) (segments []Segment) {
	for i, size := range sizes {
		segments = append(segments, Segment{Name: SegmentName(part, i), Size: size, SHA256: strings.Repeat("0a", 32)})
	}
	return segments
}

func TestOpen_readsSegmentsInOrder(t *testing.T) {
	texts := []string{"first segment,", "second segment,", "last"}
	part := Part{Name: "base.tar.zst", Segments: segmentsOf("base.tar.zst", 0, 0, 0)}
	for i, text := range texts {
		sum := sha256.Sum256([]byte(text))
		part.Segments[i].Size, part.Segments[i].SHA256 = int64(len(text)), hex.EncodeToString(sum[:])
	}
	object := func(i int) string { return path.Join(Folder("run"), part.Segments[i].Name) }
	if name := object(2); name != "runs/run/base.tar.zst.0002" {
		t.Error(name)
	}
	for name, test := range map[string]struct {
		change func(s *store.Store) error
		want   error
	}{
		"complete":       {func(*store.Store) error { return nil }, nil},
		"middle changed": {func(s *store.Store) error { put(t, s, object(1), "Second segment,"); return nil }, archive.ErrDamaged},
		"middle cut":     {func(s *store.Store) error { put(t, s, object(1), "second"); return nil }, archive.ErrDamaged},
		"first longer":   {func(s *store.Store) error { put(t, s, object(0), texts[0]+"x"); return nil }, archive.ErrDamaged},
		"first missing":  {func(s *store.Store) error { return s.Delete(t.Context(), object(0)) }, archive.ErrDamaged},
		"last missing":   {func(s *store.Store) error { return s.Delete(t.Context(), object(2)) }, archive.ErrDamaged},
		"swapped":        {func(s *store.Store) error { put(t, s, object(1), texts[2]); put(t, s, object(2), texts[1]); return nil }, archive.ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			for i, text := range texts {
				put(t, s, object(i), text)
			}
			if err := test.change(s); err != nil {
				t.Fatal(err)
			}
			r, err := Open(t.Context(), s, "run", part)
			if err == nil {
				defer r.Close()
				err = iotest.TestReader(r, []byte(strings.Join(texts, "")))
				if test.want != nil {
					_, err = io.ReadAll(r) // an error stays
				}
			}
			if !errors.Is(err, test.want) {
				t.Errorf("%v, want %v", err, test.want)
			}
		})
	}
	// Also while it is read.
	s := newStore(t)
	for i, text := range texts {
		put(t, s, object(i), text)
	}
	r, err := Open(t.Context(), s, "run", part)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), object(2)); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); !errors.Is(err, archive.ErrDamaged) || string(got) != texts[0]+texts[1] {
		t.Errorf("%q, %v: want two segments and ErrDamaged", got, err)
	}
}

func TestOpen_oneObject(t *testing.T) {
	s, part := newStore(t), Part{Name: "a.dump"}
	if _, err := Open(t.Context(), s, "run", part); !errors.Is(err, archive.ErrDamaged) {
		t.Errorf("%v, want ErrDamaged without an object", err)
	}
	put(t, s, "runs/run/a.dump", "text")
	r, err := Open(t.Context(), s, "run", part)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || string(got) != "text" {
		t.Errorf("%q, %v", got, err)
	}
}
