package walarchive

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/fettle-dev/fettle/internal/backup/store"
)

// ahead is the number of segments that are fetched before they are requested.
const ahead = 4

// Fetcher fetches the files that a recovery requests, and meanwhile the segments that follow. It is safe for concurrent use.
type Fetcher struct {
	archive *Archive
	folder  string
	ctx     context.Context //nolint:containedctx // of the downloads, which outlive a request
	cancel  context.CancelFunc

	mutex sync.Mutex
	// running are the downloads of segments into the folder, by name. There are at most ahead and the requested one.
	running map[string]*download
}

type download struct {
	done chan struct{}
	err  error
}

// NewFetcher returns a Fetcher that keeps segments in a folder, which it creates and which must be on the volume of the data. Close
// deletes the folder.
func NewFetcher(archive *Archive, folder string) (*Fetcher, error) {
	if err := errors.Join(os.RemoveAll(folder), os.MkdirAll(folder, 0o700)); err != nil {
		return nil, fmt.Errorf("folder for WAL: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // Close ends it
	return &Fetcher{archive: archive, folder: folder, ctx: ctx, cancel: cancel, running: map[string]*download{}}, nil
}

// Close ends all downloads and deletes the folder.
func (f *Fetcher) Close() error {
	f.cancel()
	f.mutex.Lock()
	all := f.running
	f.running = map[string]*download{}
	f.mutex.Unlock()
	for _, d := range all {
		<-d.done
	}
	if err := os.RemoveAll(f.folder); err != nil {
		return fmt.Errorf("folder for WAL: %w", err)
	}
	return nil
}

// Get is Archive.Get, and starts to fetch the following segments.
func (f *Fetcher) Get(ctx context.Context, name, toPath string) error {
	if !IsSegment(name) {
		return f.archive.Get(ctx, name, toPath)
	}
	d := f.start(name)
	select {
	case <-d.done:
	case <-ctx.Done():
		return fmt.Errorf("fetch WAL file %s: %w", name, ctx.Err())
	}
	f.mutex.Lock()
	delete(f.running, name) // it is taken, or must be tried again
	f.mutex.Unlock()
	if d.err != nil {
		return d.err
	}
	info, err := os.Stat(f.path(name))
	if err == nil {
		err = os.Rename(f.path(name), toPath)
	}
	if err != nil {
		return fmt.Errorf("fetch WAL file %s: %w", name, err)
	}
	f.prefetch(name, info.Size())
	return nil
}

func (f *Fetcher) path(name string) string { return filepath.Join(f.folder, name) }

// start starts the download of a segment, unless it was started before.
func (f *Fetcher) start(name string) *download {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if d := f.running[name]; d != nil {
		return d
	}
	d := &download{done: make(chan struct{})}
	f.running[name] = d
	go func() {
		defer close(d.done)
		d.err = f.archive.Get(f.ctx, name, f.path(name))
	}()
	return d
}

// prefetch starts the downloads of the segments after name, and drops downloads that the recovery has left behind.
func (f *Fetcher) prefetch(name string, segmentSize int64) {
	wanted := map[string]bool{}
	for range ahead {
		next, err := Next(name, segmentSize)
		if err != nil {
			break
		}
		name, wanted[next] = next, true
	}
	f.mutex.Lock()
	over, missing := []string{}, false
	for running, d := range f.running {
		select {
		case <-d.done:
			if !wanted[running] || d.err != nil {
				over = append(over, running)
				missing = missing || wanted[running] && errors.Is(d.err, store.ErrNotFound)
			}
		default:
		}
	}
	for _, name := range over {
		delete(f.running, name)
		_ = os.Remove(f.path(name)) // Close deletes the folder
	}
	f.mutex.Unlock()
	if missing {
		return // the end of the archive
	}
	for next := range wanted {
		f.start(next)
	}
}
