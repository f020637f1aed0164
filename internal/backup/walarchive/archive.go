// Package walarchive stores the WAL of a PostgreSQL cluster in an object store and fetches it again. Segments are at
// wal/<system identifier>/<timeline>/<name>.zst, timeline histories at wal/<system identifier>/<name>, each with the SHA-256 of
// its contents as metadata.
//
// A file counts as archived only when an object with its name and checksum exists. An object never changes: a file of the same
// name with other contents is a *ConflictError.
package walarchive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/fettle-dev/fettle/internal/backup/store"
	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

const (
	// metadataSum is the SHA-256 of the uncompressed contents, metadataReservation marks a history that only reserves a timeline.
	metadataSum         = "sha256"
	metadataReservation = "reservation"
	// parallelDeletes is the number of requests at a time that delete objects.
	parallelDeletes = 8
)

// ConflictError means that the store has other contents under the name of a file.
type ConflictError struct {
	// Name is that of the file, URI that of the object.
	Name, URI string
}

// Error says what to do.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s exists with other contents than %s: another cluster with the same system identifier archives there; give each its own bucket or prefix",
		e.URI, e.Name)
}

// Archive is the WAL of one cluster. It is safe for concurrent use.
type Archive struct {
	store  *store.Store
	folder string
}

// New returns the archive of the cluster with a system identifier, in the folder of its Backup.
func New(s *store.Store, systemIdentifier string) *Archive {
	return &Archive{store: s, folder: path.Join("wal", systemIdentifier)}
}

// Systems returns the system identifiers that have WAL in the store.
func Systems(ctx context.Context, s *store.Store) ([]string, error) {
	found := map[string]bool{}
	err := s.List(ctx, "wal/", func(name string, _ int64) error {
		system, _, _ := strings.Cut(strings.TrimPrefix(name, "wal/"), "/")
		found[system] = systemID.MatchString(system)
		return nil
	})
	var out []string
	for system, ok := range found {
		if ok {
			out = append(out, system)
		}
	}
	slices.Sort(out)
	return out, err
}

// Has reports whether the store has a file.
func (a *Archive) Has(ctx context.Context, name string) (bool, error) {
	object, err := objectName(name)
	if err != nil {
		return false, err
	}
	_, found, err := a.metadata(ctx, object)
	return found, err
}

// metadata returns that of an object. Its names are in lower case, since stores change the case.
func (a *Archive) metadata(ctx context.Context, object string) (metadata map[string]string, found bool, err error) {
	attributes, err := a.store.Attributes(ctx, path.Join(a.folder, object))
	if errors.Is(err, store.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("look for WAL file %s: %w", path.Base(object), err)
	}
	metadata = map[string]string{}
	for key, value := range attributes.Metadata {
		metadata[strings.ToLower(key)] = value
	}
	return metadata, true, nil
}

// Put stores a file under its name, unless the store has it. It returns nil only when the store has it with its checksum. The
// same name with other contents is a *ConflictError, with two exceptions that no recovery depends on: of partial segments both
// are stored, and of backup labels the first.
func (a *Archive) Put(ctx context.Context, name, file string) error {
	object, err := objectName(name)
	if err != nil {
		return err
	}
	content, err := read(file)
	if err != nil {
		return err
	}
	reserves := content.reserves && historyName.MatchString(name)
	metadata, found, err := a.metadata(ctx, object)
	switch {
	case err != nil:
		return err
	case found && (metadata[metadataSum] == content.sum || reserves || labelName.MatchString(name)):
		return nil
	case found && partialName.MatchString(name):
		// Two standbys that were promoted from the same timeline have different parts of its last segment.
		object = strings.TrimSuffix(object, ".partial"+compressed) + "." + content.sum[:8] + ".partial" + compressed
	case found && metadata[metadataReservation] == "":
		return &ConflictError{Name: name, URI: a.store.URI(path.Join(a.folder, object))}
	}
	labels := map[string]string{metadataSum: content.sum}
	if reserves {
		labels[metadataReservation] = "true"
	}
	if _, err := a.store.Write(ctx, path.Join(a.folder, object), labels, content.writer(strings.HasSuffix(object, compressed))); err != nil {
		return fmt.Errorf("store WAL file %s: %w", name, err)
	}
	return nil
}

// isReservation reports whether the contents of a history name no ancestor: then it only keeps a timeline from being used.
func isReservation(content []byte) bool {
	history, err := wal.ParseHistory(content)
	return err == nil && len(history) == 0 && bytes.HasPrefix(content, []byte("#"))
}

// Timelines returns the timelines with a history or a segment, in ascending order.
func (a *Archive) Timelines(ctx context.Context) ([]uint32, error) {
	found := map[uint32]bool{}
	err := a.list(ctx, "", func(name string) error {
		if timeline, ok := timelineOf(path.Base(name)); ok {
			found[timeline] = true
		}
		return nil
	})
	var out []uint32
	for timeline := range found {
		out = append(out, timeline)
	}
	slices.Sort(out)
	return out, err
}

// Segments calls yield with the complete segments of a timeline, by ascending position.
func (a *Archive) Segments(ctx context.Context, timeline uint32, yield func(segment string) error) error {
	return a.list(ctx, timelineFolder(timeline)+"/", func(name string) error {
		segment, ok := strings.CutSuffix(path.Base(name), compressed)
		if !ok || !segmentName.MatchString(segment) {
			return nil
		}
		return yield(segment)
	})
}

// DeleteBefore deletes what lies before a segment's position on every timeline, and returns the number of deleted objects. The
// segment must be the lowest position that any base backup needs. Histories stay.
func (a *Archive) DeleteBefore(ctx context.Context, segment string) (int, error) {
	if !segmentName.MatchString(segment) {
		return 0, fmt.Errorf("%q is no WAL segment", segment)
	}
	var old []string
	err := a.list(ctx, "", func(name string) error {
		if at := positionOf(name); at != "" && at < segment[timelineDigits:] {
			old = append(old, name)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	var mutex sync.Mutex
	deleted := 0
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelDeletes)
	for _, name := range old {
		group.Go(func() error {
			if err := a.store.Delete(ctx, path.Join(a.folder, name)); err != nil {
				return fmt.Errorf("delete WAL file %s: %w", path.Base(name), err)
			}
			mutex.Lock()
			defer mutex.Unlock()
			deleted++
			return nil
		})
	}
	err = group.Wait()
	return deleted, err
}

var insideFolder = regexp.MustCompile(`^([0-9A-F]{8}/)?[0-9A-F]{8,24}\.?[0-9A-Za-z.]*$`)

// list calls yield with the names of objects below prefix, relative to the folder. Objects of other programs are left out.
func (a *Archive) list(ctx context.Context, prefix string, yield func(name string) error) error {
	err := a.store.List(ctx, a.folder+"/"+prefix, func(name string, _ int64) error {
		if name = strings.TrimPrefix(name, a.folder+"/"); !insideFolder.MatchString(name) {
			return nil
		}
		return yield(name)
	})
	if err != nil {
		return fmt.Errorf("list WAL: %w", err)
	}
	return nil
}
