package walarchive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
)

const (
	// maxFile is the size of the largest WAL segment, in bytes.
	maxFile = 1 << 30
	// maxHistory bounds the history that is searched for ancestors, in bytes.
	maxHistory = 1 << 20
	// window bounds the memory of each compression, in bytes. The agent shares the memory of the database's container.
	window = 1 << 20
)

// ErrDamaged means that the object is not what was stored.
var ErrDamaged = errors.New("the stored WAL file is damaged")

// content is what a file had when it was read first.
type content struct {
	file     string
	sum      string
	reserves bool
}

func read(file string) (content, error) {
	f, err := os.Open(file)
	if err != nil {
		return content{}, fmt.Errorf("read WAL file: %w", err)
	}
	defer f.Close() //nolint:errcheck // it is only read
	hash := sha256.New()
	start, err := io.ReadAll(io.TeeReader(io.LimitReader(f, maxHistory), hash))
	if err == nil {
		_, err = io.Copy(hash, f)
	}
	if err != nil {
		return content{}, fmt.Errorf("read WAL file: %w", err)
	}
	return content{file: file, sum: hex.EncodeToString(hash.Sum(nil)), reserves: isReservation(start)}, nil
}

// writer returns a function that writes the contents. It fails if the file changes meanwhile.
func (c content) writer(compress bool) func(io.Writer) error {
	return func(w io.Writer) error {
		f, err := os.Open(c.file)
		if err != nil {
			return fmt.Errorf("read WAL file: %w", err)
		}
		defer f.Close() //nolint:errcheck // it is only read
		out := io.WriteCloser(plain{w})
		if compress {
			out, err = zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window))
			if err != nil {
				return fmt.Errorf("compress: %w", err)
			}
		}
		hash := sha256.New()
		_, err = io.Copy(io.MultiWriter(out, hash), f)
		if err := errors.Join(err, out.Close()); err != nil {
			return fmt.Errorf("copy WAL file: %w", err)
		}
		if hex.EncodeToString(hash.Sum(nil)) != c.sum {
			return fmt.Errorf("%s changed while it was stored", filepath.Base(c.file))
		}
		return nil
	}
}

type plain struct{ io.Writer }

func (plain) Close() error { return nil }

// Get fetches a file and checks it. toPath appears only when it is complete and on disk. The error is store.ErrNotFound if the
// store does not have it, and ErrDamaged if its checksum differs.
func (a *Archive) Get(ctx context.Context, name, toPath string) error {
	object, err := objectName(name)
	if err != nil {
		return err
	}
	reader, err := a.store.Read(ctx, path.Join(a.folder, object))
	if err != nil {
		return fmt.Errorf("fetch WAL file %s: %w", name, err)
	}
	defer reader.Close() //nolint:errcheck // it is only read
	metadata, _, err := a.metadata(ctx, object)
	if err != nil {
		return err
	}
	temporary := toPath + ".new"
	sum, err := extract(reader, temporary, strings.HasSuffix(object, compressed))
	if err == nil && sum != metadata[metadataSum] {
		err = ErrDamaged
	}
	if err == nil {
		err = os.Rename(temporary, toPath)
	}
	if err != nil {
		_ = os.Remove(temporary) // the next attempt replaces it
		return fmt.Errorf("fetch WAL file %s from %s: %w", name, a.store.URI(path.Join(a.folder, object)), err)
	}
	return syncDir(filepath.Dir(toPath))
}

// extract writes a new file and returns the SHA-256 of its contents.
func extract(from io.Reader, to string, decompress bool) (sum string, err error) {
	f, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err //nolint:wrapcheck // the caller names the file
	}
	source := &source{Reader: from}
	from = source
	if decompress {
		decoder, err := zstd.NewReader(source, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(8*window))
		if err != nil {
			return "", errors.Join(ErrDamaged, err, f.Close())
		}
		defer decoder.Close()
		from = decodeErrors{decoder, source}
	}
	hash := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, hash), io.LimitReader(from, maxFile+1))
	return hex.EncodeToString(hash.Sum(nil)), errors.Join(err, f.Sync(), f.Close())
}

// source remembers the error of the store.
type source struct {
	io.Reader

	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err //nolint:wrapcheck // zstd needs io.EOF
}

// decodeErrors marks the errors that are not of the store as damage.
type decodeErrors struct {
	io.Reader

	source *source
}

func (d decodeErrors) Read(p []byte) (int, error) {
	n, err := d.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && d.source.err == nil {
		err = errors.Join(ErrDamaged, err)
	}
	return n, err //nolint:wrapcheck // io.Copy needs io.EOF
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("flush %s: %w", dir, err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("flush %s: %w", dir, err)
	}
	return nil
}
