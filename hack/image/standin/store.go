package standin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/match"
	"golang.org/x/sys/unix"
)

// store stores built images by cache key. Images share layers.
type store struct {
	dir   string
	blobs layout.Path
	lock  *os.File
}

// openStore opens the store and waits until no other process uses it.
func openStore(dir string) (*store, error) {
	keys := filepath.Join(dir, "keys")
	if err := os.MkdirAll(keys, 0o755); err != nil {
		return nil, fmt.Errorf("create the directory of cached images: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		fmt.Fprintln(os.Stderr, "stand-ins: waiting for another build of images")
		if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
			return nil, fmt.Errorf("lock the directory of cached images: %w", err)
		}
	}
	blobs, err := layout.FromPath(dir)
	if errors.Is(err, fs.ErrNotExist) {
		blobs, err = layout.Write(dir, empty.Index)
	}
	return &store{dir: dir, blobs: blobs, lock: lock}, err
}

func (s *store) close() error { return s.lock.Close() }

func (s *store) file(key string) string { return filepath.Join(s.dir, "keys", key) }

// get returns the image of a key; nil without an error if the image is not in the store.
func (s *store) get(key string) (v1.Image, error) {
	content, err := os.ReadFile(s.file(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	digest, err := v1.NewHash(strings.TrimSpace(string(content)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.file(key), err)
	}
	image, err := s.blobs.Image(digest)
	if err != nil {
		return nil, nil //nolint:nilerr // a key without its image is ignored: the image is rebuilt
	}
	return image, nil
}

// put stores the image, and then its key.
func (s *store) put(key string, image v1.Image) (v1.Image, error) {
	digest, err := image.Digest()
	if err != nil {
		return nil, err
	}
	if err := s.blobs.ReplaceImage(image, match.Digests(digest)); err != nil {
		return nil, fmt.Errorf("store the image: %w", err)
	}
	part := s.file(key) + ".part"
	if err := os.WriteFile(part, []byte(digest.String()+"\n"), 0o644); err != nil {
		return nil, err
	}
	if err := os.Rename(part, s.file(key)); err != nil {
		return nil, err
	}
	return s.blobs.Image(digest)
}
