// Package store reads and writes the objects of one Backup in a bucket. Nothing outside of the Backup's folder can be named with it.
package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"time"

	"gocloud.dev/blob"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
)

// Memory of an upload is about six parts. An object has at most 10,000 parts in S3: 68 GiB. Package runner splits what is larger.
const (
	partSize    = 7 << 20
	concurrency = 2
)

// cleanupTimeout is how long a failed upload may take to remove what it has stored.
const cleanupTimeout = 20 * time.Second

// writeID is a key of the metadata of every object: which write it is from.
const writeID = "fettlewrite"

// Store has the objects of one Backup.
type Store struct {
	bucket *blob.Bucket
	where  location
	redact redactor
	client *http.Client
	// endsByRead says that an upload keeps nothing if the reader of its contents fails.
	endsByRead bool
	// partSize in bytes, see PartSize.
	partSize int
}

// Attributes of an object.
type Attributes struct {
	// Size in bytes.
	Size     int64
	ModTime  time.Time
	Metadata map[string]string
}

// Option of Open.
type Option func(*options)

type options struct {
	loopback bool
	retries  retries
	partSize int
	// Of tests, else zero values.
	silence time.Duration
	routes  map[string]string
}

// PermitLoopback permits endpoints on this machine. Only tests use it.
func PermitLoopback() Option { return func(o *options) { o.loopback = true } }

// PartSize sets the size of the parts of uploads in bytes, at least 5 MiB. The memory of an upload is about six parts.
func PartSize(bytes int) Option { return func(o *options) { o.partSize = bytes } }

// Open opens the folder "<namespace>/<backup>" of a destination. It sends nothing. Errors are *Error.
func Open(ctx context.Context, d backupv1alpha1.Destination, keys Keys, folder string, opts ...Option) (*Store, error) {
	o := options{retries: patient, partSize: partSize}
	for _, opt := range opts {
		opt(&o)
	}
	where, err := newLocation(d, folder)
	if err != nil {
		return nil, invalid(err)
	}
	guard := newGuard(o.loopback)
	guard.silence, guard.routes = cmp.Or(o.silence, guard.silence), o.routes
	where.identity = where.identity && len(keys.Files) == 0
	client, err := guard.client(keys.CA)
	if err != nil {
		return nil, invalid(err)
	}
	bucket, err := openBucket(ctx, where, keys, client, o.retries)
	if err != nil {
		return nil, invalid(err)
	}
	return &Store{
		bucket: bucket, where: where, redact: newRedactor(keys), client: client, partSize: o.partSize,
		endsByRead: where.kind != backupv1alpha1.StoreGCS,
	}, nil
}

// New returns a Store in an open bucket, such as one in memory. The destination says only how its objects are named.
func New(bucket *blob.Bucket, d backupv1alpha1.Destination, folder string) (*Store, error) {
	where, err := newLocation(d, folder)
	if err != nil {
		return nil, invalid(err)
	}
	return &Store{bucket: bucket, where: where, partSize: partSize}, nil
}

// Close closes the connections.
func (s *Store) Close() error {
	err := s.bucket.Close()
	if s.client != nil {
		s.client.CloseIdleConnections()
	}
	return err
}

// URI returns the URI of an object or a folder, such as s3://bucket/prefix/namespace/backup/name.
func (s *Store) URI(name string) string { return s.where.uri(name) }

// Write stores an object of what write writes, and returns its size in bytes. After an error, also one of write, the object of this
// call does not exist; one that it should replace may still exist. An error of write is returned as it is.
func (s *Store) Write(ctx context.Context, name string, metadata map[string]string, write func(io.Writer) error) (int64, error) {
	key, err := s.where.key(name)
	if err != nil {
		return 0, invalid(err)
	}
	id := rand.Text()
	marked := map[string]string{writeID: id}
	maps.Copy(marked, metadata)
	// A canceled upload waits for the part that is under way: a store may keep a part that comes after the end of its upload.
	uploading, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	r, w := io.Pipe()
	end := func(cause error) {
		if !s.endsByRead {
			stop() // else the store would keep what was sent so far
		}
		time.AfterFunc(cleanupTimeout, stop)
		_ = w.CloseWithError(cause) // never fails
	}
	defer context.AfterFunc(ctx, func() { end(ctx.Err()) })()
	counted, ended := &counter{w: w}, make(chan error, 1)
	go func() {
		err := write(counted)
		if err == nil {
			err = ctx.Err() // whoever writes may not look at it
		}
		if err != nil {
			end(err)
		}
		_ = w.Close() // never fails
		ended <- err
	}()
	// Not NewWriter: that of azureblob v0.47.0 panics when an upload fails.
	err = s.bucket.Upload(uploading, key, r, &blob.WriterOptions{
		BufferSize: s.partSize, MaxConcurrency: concurrency, ContentType: "application/octet-stream", Metadata: marked,
		BeforeWrite: s.where.beforeWrite,
	})
	_ = r.CloseWithError(errStopped) // never fails
	source := <-ended
	switch {
	case source != nil && !counted.stopped:
		err = source
	case err != nil:
		err = s.fail(ctx, opWrite, name, err)
	case counted.stopped:
		err = s.fail(ctx, opWrite, name, errStopped)
	default:
		err = s.verify(ctx, key, name, id, counted.n)
	}
	if err != nil {
		s.discard(ctx, key, id)
		return 0, err
	}
	return counted.n, nil
}

// verify checks that the store has the object that was sent.
func (s *Store) verify(ctx context.Context, key, name, id string, size int64) error {
	stored, err := s.attributes(ctx, key, name)
	if err != nil {
		return err
	}
	if stored.Size == size && stored.Metadata[writeID] == id {
		return nil
	}
	return &Error{Reason: backupv1alpha1.ReasonStoredDiffers, Message: fmt.Sprintf(
		"%s: the store has %d bytes, sent were %d, or another writer replaced the object: check the store", s.where.uri(name), stored.Size, size)}
}

// discard deletes an object if it is from the failed write: the failure may have come after the store had taken it.
func (s *Store) discard(ctx context.Context, key, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	abortUploads(ctx, s.bucket, s.where.bucket, key, func(other string, _ time.Time) bool { return other == key })
	stored, err := s.attributes(ctx, key, "")
	if err == nil && stored.Metadata[writeID] == id {
		_ = s.bucket.Delete(ctx, key) // the failure itself is what counts
	}
}

// Read opens an object. Without one, the error is ErrNotFound.
func (s *Store) Read(ctx context.Context, name string) (io.ReadCloser, error) {
	key, err := s.where.key(name)
	if err != nil {
		return nil, invalid(err)
	}
	var r *blob.Reader
	if err := s.answered(func() (err error) { r, err = s.bucket.NewReader(ctx, key, nil); return err }); err != nil {
		return nil, s.fail(ctx, opRead, name, err)
	}
	return &reader{Reader: r, fail: func(err error) error { return s.fail(ctx, opRead, name, err) }}, nil
}

// Attributes of an object. Without one, the error is ErrNotFound.
func (s *Store) Attributes(ctx context.Context, name string) (Attributes, error) {
	key, err := s.where.key(name)
	if err != nil {
		return Attributes{}, invalid(err)
	}
	a, err := s.attributes(ctx, key, name)
	if err != nil {
		return Attributes{}, err
	}
	metadata := maps.Clone(a.Metadata)
	delete(metadata, writeID)
	return Attributes{Size: a.Size, ModTime: a.ModTime, Metadata: metadata}, nil
}

// Delete deletes an object. It succeeds if there is none.
func (s *Store) Delete(ctx context.Context, name string) error {
	key, err := s.where.key(name)
	if err != nil {
		return invalid(err)
	}
	err = s.fail(ctx, opDelete, name, s.answered(func() error { return s.bucket.Delete(ctx, key) }))
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// errStopped is what a writer gets when the upload has ended before.
var errStopped = errors.New("the upload has ended")

// counter counts what the upload took, and whether it ended before it had all.
type counter struct {
	w       io.Writer
	n       int64
	stopped bool
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	if err != nil {
		c.stopped = true
	}
	return n, err
}

// reader classifies the errors of an object's reader.
type reader struct {
	*blob.Reader
	fail func(error) error
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.fail(err)
	}
	return n, err
}
