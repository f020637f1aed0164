package runner

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/archive"
	"github.com/fettle-dev/fettle/internal/backup/manifest"
)

// source writes a dump to out, to its end.
type source func(ctx context.Context, out io.Writer) error

// check reads a dump while it is written. An error says why it is not complete.
type check func(ctx context.Context, dump io.Reader) error

// segmentSize is the most that one object gets, in bytes. The stores permit 10,000 parts of an upload: 68 GiB, see package store.
const segmentSize = 64 << 30

// upload stores what a source writes as a part of this run, and reads it back. After an error, also of the source or the check, segments
// may be stored: the caller calls removeParts. The caller sets Part.Database too.
func (r *run) upload(ctx context.Context, name string, o archive.Options, from source, complete check) (manifest.Part, error) {
	name += o.Suffix()
	part := manifest.Part{}
	stream, sink := io.Pipe()
	packed := make(chan struct{})
	go func() {
		defer close(packed)
		var err error
		part, err = r.pack(ctx, sink, o, from, complete)
		_ = sink.CloseWithError(err) // never fails; without an error, it is the end
	}()
	segments, err := r.storeSegments(ctx, name, stream)
	_ = stream.CloseWithError(errStoreEnded) // never fails
	<-packed
	if part.Name = name; err != nil {
		return part, err
	}
	if len(segments) > 1 {
		part.Segments = segments
	}
	r.removeStale(ctx, name, len(segments))
	return part, r.readBack(ctx, part)
}

// errStoreEnded ends a source whose output could not be stored.
var errStoreEnded = errors.New("the upload has ended")

// pack writes what a source writes to out, compressed and encrypted. The result has no name.
func (r *run) pack(ctx context.Context, out io.Writer, o archive.Options, from source, complete check) (part manifest.Part, err error) {
	packed, err := archive.NewWriter(out, o)
	if err != nil {
		return part, fmt.Errorf("compress or encrypt: %w", err)
	}
	if err := checked(ctx, io.MultiWriter(packed, r.progress), from, complete); err != nil {
		return part, err
	}
	if err := packed.Close(); err != nil {
		return part, fmt.Errorf("compress or encrypt: %w", err)
	}
	if packed.RawBytes() == 0 {
		return part, fail(backupv1alpha1.ReasonDumpInvalid, "the dump program wrote nothing: read the logs of the pod")
	}
	return manifest.Part{Size: packed.Size(), RawSize: packed.RawBytes(), SHA256: packed.SHA256()}, nil
}

// storeSegments stores a stream in as many objects as it needs. An error of the stream is returned as it is.
func (r *run) storeSegments(ctx context.Context, part string, stream io.Reader) (segments []manifest.Segment, err error) {
	buffered, buffer := bufio.NewReaderSize(stream, copySize), make([]byte, copySize)
	for {
		// The stream may end with a segment. The first one is written in any case: an empty stream is an error.
		if _, err := buffered.Peek(1); errors.Is(err, io.EOF) && len(segments) > 0 {
			return segments, nil
		}
		segment, hash := manifest.Segment{Name: manifest.SegmentName(part, len(segments))}, sha256.New()
		segment.Size, err = r.store.Write(ctx, r.object(segment.Name), nil, func(w io.Writer) error {
			_, err := io.CopyBuffer(io.MultiWriter(w, hash), io.LimitReader(buffered, cmp.Or(r.SegmentSize, segmentSize)), buffer)
			return err
		})
		if err != nil {
			return nil, err
		}
		segment.SHA256 = hex.EncodeToString(hash.Sum(nil))
		segments = append(segments, segment)
	}
}

// removeStale deletes the segments of a part from count on: an earlier attempt may have needed more. What remains does no harm.
func (r *run) removeStale(ctx context.Context, part string, count int) {
	for ; ; count++ {
		object := r.object(manifest.SegmentName(part, count))
		if _, err := r.store.Attributes(ctx, object); err != nil {
			return // almost always since there is none
		}
		if err := r.store.Delete(ctx, object); err != nil {
			r.Log.Warn("failed to remove what an earlier attempt stored", "object", object, "error", r.failure(err).Message)
			return
		}
	}
}

// object returns the name of an object of this run.
func (r *run) object(name string) string { return path.Join(manifest.Folder(r.config.Object), name) }

// errRejected ends a source whose output the check has rejected.
var errRejected = errors.New("the dump was rejected")

// checked runs a source, and the check on a copy of what it writes.
func checked(ctx context.Context, out io.Writer, from source, complete check) error {
	reader, writer := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := complete(ctx, bufio.NewReaderSize(reader, copySize))
		if err == nil {
			_, err = io.Copy(io.Discard, reader) // the check may not need the end
		}
		reader.CloseWithError(errRejected)
		done <- err
	}()
	err := from(ctx, io.MultiWriter(out, writer))
	writer.CloseWithError(err)
	if invalid := <-done; invalid != nil && (err == nil || errors.Is(err, errRejected)) {
		// Not wrapped: a check is a program too, and its failure is not one of the dump program.
		return fail(backupv1alpha1.ReasonDumpInvalid, "the dump is not complete: %v", invalid)
	}
	return err
}

// readBack compares what the store has with what was sent.
func (r *run) readBack(ctx context.Context, part manifest.Part) error {
	uri, hash, size := r.store.URI(r.object(part.Name)), sha256.New(), int64(0)
	body, err := manifest.Open(ctx, r.store, r.config.Object, part)
	if err == nil {
		defer body.Close() //nolint:errcheck // it is only read
		if size, err = io.Copy(hash, body); err != nil && !errors.Is(err, archive.ErrDamaged) {
			return fail(backupv1alpha1.ReasonStoreFailed, "read %s back: %w", uri, err)
		}
	}
	if errors.Is(err, archive.ErrDamaged) {
		return fail(backupv1alpha1.ReasonStoredDiffers, "%s is not what was sent: %w: check the store", uri, err)
	}
	if err != nil {
		return err
	}
	if sum := hex.EncodeToString(hash.Sum(nil)); size != part.Size || sum != part.SHA256 {
		return fail(backupv1alpha1.ReasonStoredDiffers, "%s is not what was sent: it has %d of %d bytes and SHA-256 %s instead of %s: check the store",
			uri, size, part.Size, sum, part.SHA256)
	}
	return nil
}
