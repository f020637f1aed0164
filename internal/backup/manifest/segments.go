package manifest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"

	"github.com/fettle-dev/fettle/internal/backup/archive"
	"github.com/fettle-dev/fettle/internal/backup/store"
)

// Segment is one of several objects that together contain a part, in order.
type Segment struct {
	// Name of the object below the folder of the run, see SegmentName.
	Name string `json:"name"`
	// Size in bytes, and SHA256 in hexadecimal digits.
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// SegmentName returns the name of a segment: that of the part, and from the second one on a number that keeps the order of names.
func SegmentName(part string, index int) string {
	if index == 0 {
		return part
	}
	return fmt.Sprintf("%s.%04d", part, index)
}

// validate returns ErrInvalid if a field cannot be, or if another part has an object of the same name. seen has their names.
func (p Part) validate(seen map[string]bool) error {
	if !partPattern.MatchString(p.Name) || seen[p.Name] || p.Size <= 0 || p.RawSize < 0 || !sha256Pattern.MatchString(p.SHA256) {
		return invalid("part %q: its name, size or checksum cannot be", p.Name)
	}
	seen[p.Name] = true
	if p.Segments == nil {
		return nil
	}
	return p.validateSegments(seen)
}

// validateSegments returns ErrInvalid if the segments cannot be those of the part.
func (p Part) validateSegments(seen map[string]bool) error {
	if count := len(p.Segments); count < 2 || count > maxParts {
		return invalid("part %q: it cannot have %d segments", p.Name, count)
	}
	left := p.Size
	for i, s := range p.Segments {
		if s.Name != SegmentName(p.Name, i) || i > 0 && seen[s.Name] || s.Size <= 0 || s.Size > left || !sha256Pattern.MatchString(s.SHA256) {
			return invalid("part %q: name, size or checksum of segment %q cannot be", p.Name, s.Name)
		}
		seen[s.Name], left = true, left-s.Size
	}
	if left > 0 {
		return invalid("part %q: its segments lack %d bytes", p.Name, left)
	}
	return nil
}

// Open opens the stored bytes of a part. The error, also of Read, is archive.ErrDamaged if an object is missing, or if a segment is not
// what was stored. Without segments, the caller compares the size and checksum of the part.
func Open(ctx context.Context, s *store.Store, run string, part Part) (io.ReadCloser, error) {
	name := func(object string) string { return path.Join(Folder(run), object) }
	if len(part.Segments) == 0 {
		body, err := s.Read(ctx, name(part.Name))
		return body, missing(err)
	}
	for _, segment := range part.Segments { // reading up to the one that is missing may take hours
		stored, err := s.Attributes(ctx, name(segment.Name))
		if err != nil {
			return nil, missing(err)
		}
		if stored.Size != segment.Size {
			return nil, fmt.Errorf("%w: %s has %d bytes; written were %d", archive.ErrDamaged, segment.Name, stored.Size, segment.Size)
		}
	}
	return &segmentReader{left: part.Segments, open: func(object string) (io.ReadCloser, error) {
		body, err := s.Read(ctx, name(object))
		return body, missing(err)
	}}, nil
}

// missing returns archive.ErrDamaged for an object that does not exist.
func missing(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("%w: %w", archive.ErrDamaged, err)
	}
	return err
}

// segmentReader reads one segment after the other.
type segmentReader struct {
	open func(object string) (io.ReadCloser, error)
	left []Segment // the first is open if body is set
	body io.ReadCloser
	hash hash.Hash
	size int64
	err  error // of the last Read, which all later ones return too
}

func (r *segmentReader) Read(p []byte) (n int, err error) {
	if r.err == nil && r.body == nil {
		r.err = r.next()
	}
	if r.err != nil {
		return 0, r.err
	}
	n, err = r.body.Read(p)
	r.hash.Write(p[:n])
	r.size += int64(n)
	if errors.Is(err, io.EOF) {
		err = r.finish()
	}
	r.err = err
	return n, r.err
}

// next opens the next segment.
func (r *segmentReader) next() (err error) {
	if len(r.left) == 0 {
		return io.EOF
	}
	r.hash, r.size = sha256.New(), 0
	r.body, err = r.open(r.left[0].Name)
	return err
}

// finish checks the segment that was read.
func (r *segmentReader) finish() error {
	segment := r.left[0]
	r.left = r.left[1:]
	if err := r.Close(); err != nil {
		return err
	}
	if sum := hex.EncodeToString(r.hash.Sum(nil)); r.size != segment.Size || sum != segment.SHA256 {
		return fmt.Errorf("%w: %s has %d bytes with the SHA-256 %s; written were %d with %s",
			archive.ErrDamaged, segment.Name, r.size, sum, segment.Size, segment.SHA256)
	}
	return nil
}

// Close closes the segment that is open.
func (r *segmentReader) Close() error {
	body := r.body
	if r.body = nil; body == nil {
		return nil
	}
	return body.Close()
}
