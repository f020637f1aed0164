package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Reclone replaces the data directory, of a stopped server, by a copy of a running one. Where the volume has room for both,
// the old one is there until the new one is whole; where it has not, it is removed first. After a crash meanwhile Restore
// has either the old data directory or the new one be there, whole, or none. With keep, the old one stays on the volume, in a folder
// of that name; then a lack of room is an error.
func (s *Server) Reclone(ctx context.Context, source Source, keep string) error {
	what := "reclone " + source.Host
	if err := s.requireIdle(ctx); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if err := errors.Join(s.removeClone(), s.CheckSource(ctx, source)); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if both, err := s.hasRoomForCopy(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	} else if !both && keep != "" {
		return fmt.Errorf("%s: the volume has no room for a copy beside the data that are to be kept: raise spec.storage", what)
	} else if !both {
		s.logf("the volume has no room for two copies of the data: those that can't follow the primary are removed first")
		if err := s.Remove(ctx); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return s.Clone(ctx, source)
	}
	if err := s.baseBackup(ctx, source); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", what, err), s.removeClone())
	}
	if err := s.swapDataDirs(keep); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// KeptDirName is how a folder is called into which data are put aside at some time.
func KeptDirName(at time.Time) string { return keptPrefix + at.UTC().Format("20060102T150405Z") }

// swapDataDirs has the copy be the data directory, and removes what was, unless it is to be kept under a name. Between the two renames there is no
// data directory.
func (s *Server) swapDataDirs(keep string) error {
	if err := errors.Join(syncDir(s.CloneDir()), removeAll(s.oldDir())); err != nil {
		return err
	}
	aside := s.oldDir()
	if keep != "" {
		aside = filepath.Join(s.options.Volume, keep)
	}
	if err := os.Rename(s.DataDir(), aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(s.CloneDir(), s.DataDir()); err != nil {
		return err
	}
	return errors.Join(syncDir(s.options.Volume), removeAll(s.oldDir()))
}

// RecoverReclone undoes what an earlier life did not end: a data directory that was put aside comes back where no other has taken
// its place, and what else is left of copies goes. Nothing may use the volume.
func (s *Server) RecoverReclone(ctx context.Context) error {
	if err := s.requireIdle(ctx); err != nil {
		return err
	}
	content, _ := s.DataState() // what it says is told when the data directory is looked at
	if content == Unrecognized {
		return nil
	}
	if aside, err := exists(s.oldDir()); err != nil {
		return err
	} else if aside && content == Empty {
		if err := errors.Join(removeAll(s.DataDir()), os.Rename(s.oldDir(), s.DataDir()), syncDir(s.options.Volume)); err != nil {
			return fmt.Errorf("bring the data directory back: %w", err)
		}
	}
	if err := errors.Join(s.removeClone(), removeAll(s.oldDir())); err != nil {
		return fmt.Errorf("remove what is left of a copy: %w", err)
	}
	return nil
}

func (s *Server) oldDir() string { return filepath.Join(s.options.Volume, oldName) }

// hasRoomForCopy estimates whether a copy fits beside the data directory: it is about as large, and grows while it is made.
func (s *Server) hasRoomForCopy() (bool, error) {
	disk, err := s.Disk()
	if err != nil {
		return false, err
	}
	size, err := s.dataSize()
	return disk.Free > size+size/8+copyReserve, err
}

// copyReserve is what a copy may be larger by than its original: some segments of the write-ahead log.
const copyReserve = 64 << 20

// dataSize is what the data directory takes of the volume, in bytes.
func (s *Server) dataSize() (int64, error) {
	total := int64(0)
	err := filepath.WalkDir(s.DataDir(), func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = entry.Info(); err == nil {
				total += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("measure the data directory: %w", err)
	}
	return total, nil
}
