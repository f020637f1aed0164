package walarchive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"time"

	"github.com/fettle-dev/fettle/internal/backup/recovery"
	"github.com/fettle-dev/fettle/internal/backup/store"
	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

// Recoverable lists the archive for a recovery. segmentSize is in bytes. Timelines that were only reserved are left out.
func (a *Archive) Recoverable(ctx context.Context, segmentSize int64) (recovery.Archive, error) {
	var out recovery.Archive
	numbers, err := a.Timelines(ctx)
	if err != nil {
		return out, err
	}
	for _, number := range numbers {
		t := recovery.Timeline{ID: wal.Timeline(number)}
		if t.History, err = a.history(ctx, t.ID); err != nil {
			return out, err
		}
		if len(t.History) > 0 {
			if t.Created, err = a.StoredAt(ctx, wal.HistoryFile(t.ID)); err != nil {
				return out, err
			}
		}
		if err := a.Segments(ctx, number, func(name string) error {
			if _, segment, ok := recovery.SegmentNumber(name, segmentSize); ok {
				t.Segments = append(t.Segments, segment)
			}
			return nil
		}); err != nil {
			return out, err
		}
		if number == 1 || len(t.History)+len(t.Segments) > 0 {
			out.Timelines = append(out.Timelines, t)
		}
	}
	return out, nil
}

// history reads a timeline history; empty if the store has none.
func (a *Archive) history(ctx context.Context, timeline wal.Timeline) (wal.History, error) {
	object := path.Join(a.folder, wal.HistoryFile(timeline))
	reader, err := a.store.Read(ctx, object)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the history of timeline %d: %w", timeline, err)
	}
	defer reader.Close() //nolint:errcheck // it is only read
	content, err := io.ReadAll(io.LimitReader(reader, maxHistory))
	if err != nil {
		return nil, fmt.Errorf("read the history of timeline %d: %w", timeline, err)
	}
	history, err := wal.ParseHistory(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", a.store.URI(object), ErrDamaged, err)
	}
	return history, nil
}

// StoredAt returns when a file was stored. The error is store.ErrNotFound if the store does not have it.
func (a *Archive) StoredAt(ctx context.Context, name string) (time.Time, error) {
	object, err := objectName(name)
	if err != nil {
		return time.Time{}, err
	}
	attributes, err := a.store.Attributes(ctx, path.Join(a.folder, object))
	if err != nil {
		return time.Time{}, fmt.Errorf("look for WAL file %s: %w", name, err)
	}
	return attributes.ModTime, nil
}
