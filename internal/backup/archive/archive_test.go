package archive

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
)

// contents are 3 MiB, half of which can be compressed.
func contents() []byte {
	raw := make([]byte, 3<<20)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range len(raw) / 2 {
		raw[i] = byte(random.Uint32())
	}
	return raw
}

func write(t *testing.T, o Options, raw []byte) (stored []byte, size int64, sum string) {
	t.Helper()
	buffer := &bytes.Buffer{}
	w, err := NewWriter(buffer, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(w, bytes.NewReader(raw)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if w.RawBytes() != int64(len(raw)) || w.Size() != int64(buffer.Len()) {
		t.Fatalf("counted %d and %d bytes, want %d and %d", w.RawBytes(), w.Size(), len(raw), buffer.Len())
	}
	return buffer.Bytes(), w.Size(), w.SHA256()
}

func identity(t *testing.T) (private []byte, public string) {
	t.Helper()
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return []byte("# created: today\n" + key.String() + "\n"), key.Recipient().String()
}

func TestArchive_roundTripAndDamage(t *testing.T) {
	private, public := identity(t)
	raw := contents()
	for _, c := range []struct {
		suffix string
		o      Options
	}{
		{"", Options{Compression: backupv1alpha1.CompressionNone}},
		{".zst", Options{Compression: backupv1alpha1.CompressionZstd}},
		{".gz", Options{Compression: backupv1alpha1.CompressionGzip}},
		{".age", Options{Recipients: []string{public}}},
		{".zst.age", Options{Compression: backupv1alpha1.CompressionZstd, Recipients: []string{public}}},
		{".gz.age", Options{Compression: backupv1alpha1.CompressionGzip, Recipients: []string{public}}},
	} {
		t.Run(c.suffix, func(t *testing.T) {
			if c.o.Suffix() != c.suffix {
				t.Fatalf("suffix %q, want %q", c.o.Suffix(), c.suffix)
			}
			stored, size, sum := write(t, c.o, raw)
			read := func(stored []byte) ([]byte, error) {
				r, err := NewReader(bytes.NewReader(stored), "shop.dump"+c.suffix, private)
				if err != nil {
					return nil, err
				}
				defer r.Close()
				got, err := io.ReadAll(r)
				if err != nil {
					return got, err
				}
				return got, r.Verify(size, sum)
			}
			if got, err := read(stored); err != nil || !bytes.Equal(got, raw) {
				t.Fatalf("read %d of %d bytes: %v", len(got), len(raw), err)
			}
			flipped := bytes.Clone(stored)
			flipped[len(flipped)/2] ^= 1
			for name, damaged := range map[string][]byte{
				"truncated": stored[:len(stored)-1], "half": stored[:len(stored)/2], "empty": {}, "flipped": flipped, "longer": append(bytes.Clone(stored), 0),
			} {
				if _, err := read(damaged); !errors.Is(err, ErrDamaged) {
					t.Errorf("%s: %v, want ErrDamaged", name, err)
				}
			}
		})
	}
}

// attack 48: the contents of a backup must be unreadable in the store where encryption is asked for.
func TestArchive_encryptionHidesContents(t *testing.T) {
	private, public := identity(t)
	other, _ := identity(t)
	raw := bytes.Repeat([]byte("secret of a customer\n"), 1000)
	stored, _, _ := write(t, Options{Recipients: []string{public}}, raw)
	if bytes.Contains(stored, []byte("secret of a customer")) || bytes.Contains(stored, []byte(public)) {
		t.Fatal("the contents or the recipient can be read")
	}
	for name, key := range map[string][]byte{"none": nil, "other": other, "none valid": []byte("AGE-SECRET-KEY-1WRONG")} {
		_, err := NewReader(bytes.NewReader(stored), "a.dump.age", key)
		if !errors.Is(err, ErrKeyMissing) || len(key) > 0 && strings.Contains(err.Error(), "AGE-SECRET") {
			t.Errorf("key %s: %v, want ErrKeyMissing without the key", name, err)
		}
	}
	if r, err := NewReader(bytes.NewReader(stored), "a.dump.age", append(other, private...)); err != nil {
		t.Errorf("one of two keys: %v", err)
	} else if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, raw) {
		t.Errorf("one of two keys: %v", err)
	}
}

// TestReader_memoryIsBounded: attack 46, a crafted part that asks for much memory.
func TestReader_memoryIsBounded(t *testing.T) {
	var crafted bytes.Buffer
	w, err := zstd.NewWriter(&crafted, zstd.WithWindowSize(2*maxWindow))
	if err == nil {
		_, err = w.Write(contents())
	}
	if err := errors.Join(err, w.Flush(), w.Close()); err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(&crafted, "a.zst", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.Copy(io.Discard, r); !errors.Is(err, ErrDamaged) {
		t.Errorf("%v, want ErrDamaged", err)
	}
}

func TestArchive_errorOfSourceIsNotDamage(t *testing.T) {
	stored, _, _ := write(t, Options{Compression: backupv1alpha1.CompressionZstd}, contents())
	cut := errors.New("connection reset")
	r, err := NewReader(io.MultiReader(bytes.NewReader(stored[:len(stored)/2]), iotest.ErrReader(cut)), "a.zst", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.ReadAll(r); !errors.Is(err, cut) || errors.Is(err, ErrDamaged) {
		t.Fatalf("%v, want the error of the source", err)
	}
}

func TestArchive_recipientInvalid(t *testing.T) {
	if _, err := NewWriter(io.Discard, Options{Recipients: []string{"age1wrong"}}); err == nil {
		t.Fatal("accepted")
	}
}
