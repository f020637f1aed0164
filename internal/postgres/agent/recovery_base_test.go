package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"testing"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/manifest"
	"github.com/fettle-dev/fettle/internal/backup/progress"
)

// TestReadBase_takesNoMoreThanItsSize: attack 46, a base backup that is larger than the volume was checked for.
func TestReadBase_takesNoMoreThanItsSize(t *testing.T) {
	s, err := newTestBucket(t).connect()
	if err != nil {
		t.Fatal(err)
	}
	stored := bytes.Repeat([]byte("x"), 1<<20)
	if _, err := s.Write(t.Context(), manifest.Folder("one")+"/base.tar", nil, func(w io.Writer) error {
		_, err := w.Write(stored)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(stored)
	for _, size := range []int64{1 << 10, 1 << 20} {
		m := &manifest.Manifest{Run: "one", Parts: []manifest.Part{{Name: "base.tar", Size: 1 << 20, RawSize: size, SHA256: hex.EncodeToString(sum[:])}}}
		got := int64(0)
		err := readBase(t.Context(), s, m, func(r io.Reader) (err error) {
			got, err = io.Copy(io.Discard, r)
			return err
		})
		if err != nil || got != size {
			t.Errorf("%d bytes of %d, %v", got, size, err)
		}
	}
}

// TestCountAll: the end of an archive is copied too, although nothing is written for it.
func TestCountAll(t *testing.T) {
	full := errors.New("no space left")
	for _, failure := range []error{nil, full} {
		copied := progress.New(func(context.Context, backupv1alpha1.Progress) error { return nil })
		stop := copied.Start(t.Context(), 1000)
		err := countAll(copied, bytes.NewReader(make([]byte, 1000)), func(r io.Reader) error {
			_, err := io.ReadFull(r, make([]byte, 600))
			return errors.Join(err, failure)
		})
		stop()
		want := map[bool]int64{true: 600, false: 1000}[failure != nil]
		if got := copied.State().Bytes; got != want || !errors.Is(err, failure) {
			t.Errorf("%v: %d bytes, want %d, and %v", failure, got, want, err)
		}
	}
}
