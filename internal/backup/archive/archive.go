// Package archive compresses, encrypts and checks the parts of a backup while they stream. A part is first compressed, then encrypted.
package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"filippo.io/age"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
)

// Suffixes of the names of parts.
const (
	suffixZstd = ".zst"
	suffixGzip = ".gz"
	suffixAge  = ".age"
)

// window is the memory of zstd for repetitions, in bytes; maxWindow is the most that a part may ask for when it is read.
const (
	window    = 4 << 20
	maxWindow = 64 << 20
	workers   = 2
)

var (
	// ErrKeyMissing reports that a part is encrypted, and none of the given keys decrypts it.
	ErrKeyMissing = errors.New("encrypted for another key")
	// ErrDamaged reports that a part is not what was written.
	ErrDamaged = errors.New("damaged")
)

// Options say how parts are written.
type Options struct {
	// Compression defaults to none.
	Compression backupv1alpha1.Compression
	// Recipients are public age keys. Parts are encrypted if there are any.
	Recipients []string
}

// Suffix returns what the names of parts end with, such as ".zst.age".
func (o Options) Suffix() string {
	suffix := ""
	switch o.Compression {
	case backupv1alpha1.CompressionZstd:
		suffix = suffixZstd
	case backupv1alpha1.CompressionGzip:
		suffix = suffixGzip
	case backupv1alpha1.CompressionNone:
	}
	if len(o.Recipients) > 0 {
		suffix += suffixAge
	}
	return suffix
}

// digest counts and hashes what passes.
type digest struct {
	hash hash.Hash
	size int64
}

func (d *digest) add(p []byte) {
	d.hash.Write(p)
	d.size += int64(len(p))
}

// SHA256 of the stored bytes, in hexadecimal digits.
func (d *digest) SHA256() string { return hex.EncodeToString(d.hash.Sum(nil)) }

// Size of the stored bytes.
func (d *digest) Size() int64 { return d.size }

// Writer compresses and encrypts. Size and SHA256 are final after Close.
type Writer struct {
	digest
	to     io.Writer
	top    io.Writer
	layers []io.Closer // the innermost first
	raw    int64
}

// NewWriter returns a Writer to w, which it does not close.
func NewWriter(w io.Writer, o Options) (*Writer, error) {
	a := &Writer{digest: digest{hash: sha256.New()}, to: w}
	a.top = stored{a}
	if len(o.Recipients) > 0 {
		recipients, err := age.ParseRecipients(strings.NewReader(strings.Join(o.Recipients, "\n")))
		if err != nil {
			return nil, fmt.Errorf("encryption.recipients: %w", err)
		}
		encrypted, err := age.Encrypt(a.top, recipients...)
		if err != nil {
			return nil, fmt.Errorf("encrypt: %w", err)
		}
		a.push(encrypted)
	}
	switch o.Compression {
	case backupv1alpha1.CompressionZstd:
		compressed, err := zstd.NewWriter(a.top, zstd.WithEncoderConcurrency(workers), zstd.WithWindowSize(window), zstd.WithZeroFrames(true))
		if err != nil {
			return nil, fmt.Errorf("compress: %w", err)
		}
		a.push(compressed)
	case backupv1alpha1.CompressionGzip:
		a.push(gzip.NewWriter(a.top))
	case backupv1alpha1.CompressionNone, "":
	default:
		return nil, fmt.Errorf("compression: %q is not known", o.Compression)
	}
	return a, nil
}

func (a *Writer) push(layer io.WriteCloser) {
	a.top, a.layers = layer, append(a.layers, layer)
}

// Write takes bytes of the source.
func (a *Writer) Write(p []byte) (int, error) {
	n, err := a.top.Write(p)
	a.raw += int64(n)
	return n, err
}

// RawBytes is how many bytes of the source were taken.
func (a *Writer) RawBytes() int64 { return a.raw }

// Close writes the end of the part.
func (a *Writer) Close() error {
	for len(a.layers) > 0 {
		last := len(a.layers) - 1
		layer := a.layers[last]
		a.layers = a.layers[:last]
		if err := layer.Close(); err != nil {
			return err
		}
	}
	return nil
}

// stored is the innermost layer of a Writer.
type stored struct{ a *Writer }

func (s stored) Write(p []byte) (int, error) {
	n, err := s.a.to.Write(p)
	s.a.add(p[:n])
	return n, err
}

// Reader decrypts and decompresses. Its errors are ErrKeyMissing, ErrDamaged and those of the source.
type Reader struct {
	source *source
	top    io.Reader
	free   func()
}

// source is what a Reader reads from.
type source struct {
	digest
	from io.Reader
	err  error // other than io.EOF
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	s.add(p[:n])
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// NewReader returns a Reader of the part with the name, whose suffix says how it was written. The identity has private age keys, one in
// a line. It does not close r, and checks only what compression and encryption check: see Verify.
func NewReader(r io.Reader, name string, identity []byte) (*Reader, error) {
	a := &Reader{source: &source{digest: digest{hash: sha256.New()}, from: r}, free: func() {}}
	a.top = a.source
	name, encrypted := strings.CutSuffix(name, suffixAge)
	if encrypted {
		if err := a.decrypt(identity); err != nil {
			return nil, err
		}
	}
	switch {
	case strings.HasSuffix(name, suffixZstd):
		decoder, err := zstd.NewReader(a.top, zstd.WithDecoderConcurrency(workers), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, a.failure(err)
		}
		a.top, a.free = decoder, decoder.Close
	case strings.HasSuffix(name, suffixGzip):
		decoder, err := gzip.NewReader(a.top)
		if err != nil {
			return nil, a.failure(err)
		}
		a.top = decoder
	}
	return a, nil
}

func (a *Reader) decrypt(identity []byte) error {
	if len(bytes.TrimSpace(identity)) == 0 {
		return fmt.Errorf("%w: identitySecretRef is not set", ErrKeyMissing)
	}
	identities, err := age.ParseIdentities(bytes.NewReader(identity))
	if err != nil { // its text could quote the key
		return fmt.Errorf("%w: the Secret has no private age key", ErrKeyMissing)
	}
	plain, err := age.Decrypt(a.source, identities...)
	if missing := (*age.NoIdentityMatchError)(nil); errors.As(err, &missing) {
		return ErrKeyMissing
	}
	if err != nil {
		return a.failure(err)
	}
	a.top = plain
	return nil
}

// failure returns the error of the source, if that was the cause.
func (a *Reader) failure(err error) error {
	if a.source.err != nil {
		return a.source.err
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// Read returns bytes as the source had them.
func (a *Reader) Read(p []byte) (int, error) {
	n, err := a.top.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = a.failure(err)
	}
	if errors.Is(err, io.EOF) && a.source.size == 0 && a.top != io.Reader(a.source) {
		err = fmt.Errorf("%w: empty", ErrDamaged) // zstd takes an empty file
	}
	return n, err
}

// Verify reads the rest, and returns ErrDamaged if the stored bytes are not those that were written.
func (a *Reader) Verify(size int64, sha256 string) error {
	if _, err := io.Copy(io.Discard, a); err != nil {
		return err
	}
	if err := a.Close(); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, a.source); err != nil { // what follows the end of the compressed bytes
		return err
	}
	if a.Size() != size || a.SHA256() != sha256 {
		return fmt.Errorf("%w: it has %d bytes with the SHA-256 %s; written were %d with %s", ErrDamaged, a.Size(), a.SHA256(), size, sha256)
	}
	return nil
}

// Size is how many stored bytes were read.
func (a *Reader) Size() int64 { return a.source.Size() }

// SHA256 of the stored bytes that were read, in hexadecimal digits.
func (a *Reader) SHA256() string { return a.source.SHA256() }

// Close frees memory. It does not close the source.
func (a *Reader) Close() error {
	a.free()
	a.free = func() {}
	return nil
}
