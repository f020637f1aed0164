package manifest

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/fettle-dev/fettle/internal/backup/store"
)

// contents are the objects of one run.
type contents struct {
	run     string
	objects []string
	// complete says that a manifest is among them, even a damaged one.
	complete bool
	// newest is when the last object was stored. Unknown, the zero time, if complete.
	newest time.Time
}

// abandoned returns the runs that left parts and were stopped before they could write a manifest or remove the parts: those in whose
// folders nothing was stored since a time. A run that goes on, such as own, is none of them.
func abandoned(all []contents, own string, since time.Time) (runs []string) {
	for _, c := range all {
		if c.run != own && !c.complete && !c.newest.IsZero() && c.newest.Before(since) {
			runs = append(runs, c.run)
		}
	}
	return runs
}

// DeleteAbandoned deletes the parts of other runs than own that have no manifest, and that no run writes to: the last one was stored
// longer than an age before the manifest of own, by the clock of the store. It returns the runs.
func DeleteAbandoned(ctx context.Context, s *store.Store, own string, age time.Duration) ([]string, error) {
	reference, err := s.Attributes(ctx, object(own))
	if err != nil {
		return nil, err
	}
	since := reference.ModTime.Add(-age)
	all, err := runs(ctx, s)
	if err != nil {
		return nil, err
	}
	var deleted []string
	for _, run := range abandoned(all, own, since) {
		// A list may lack the newest objects.
		if _, err := Read(ctx, s, run); !errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err := Delete(ctx, s, run); err != nil {
			return deleted, err
		}
		deleted = append(deleted, run)
	}
	s.AbortUploads(ctx, folder+"/", since)
	return deleted, nil
}

// runs lists the contents of all runs.
func runs(ctx context.Context, s *store.Store) (all []contents, err error) {
	byRun := map[string]*contents{}
	err = s.List(ctx, folder+"/", func(name string, _ int64) error {
		run, file, inFolder := strings.Cut(strings.TrimPrefix(name, folder+"/"), "/")
		if !inFolder || !labelPattern.MatchString(run) {
			return nil
		}
		c := byRun[run]
		if c == nil {
			c = &contents{run: run}
			byRun[run] = c
		}
		c.objects, c.complete = append(c.objects, file), c.complete || file == fileName
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, c := range byRun {
		if !c.complete {
			if c.newest, err = newest(ctx, s, c); err != nil {
				return nil, err
			}
		}
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b contents) int { return strings.Compare(a.run, b.run) })
	return all, nil
}

// newest returns when the last object of a run was stored.
func newest(ctx context.Context, s *store.Store, c *contents) (last time.Time, err error) {
	for _, file := range c.objects {
		a, err := s.Attributes(ctx, path.Join(Folder(c.run), file))
		if errors.Is(err, store.ErrNotFound) {
			continue // deleted since
		}
		if err != nil {
			return last, err
		}
		if a.ModTime.After(last) {
			last = a.ModTime
		}
	}
	return last, nil
}
