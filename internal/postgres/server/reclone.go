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

// Reclone replaces the data directory of a stopped server with a base backup of a running one. If the volume has room for
// both, the old data stay until the copy is complete. Otherwise they are removed first. After a crash, RecoverReclone
// restores either the old or the new data directory, complete, or leaves none. With keep, the old data stay on the volume
// in a directory of that name, and a lack of room is an error.
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
		return fmt.Errorf("%s: the volume has no room for a copy beside the old data: increase spec.storage", what)
	} else if !both {
		s.logf("the volume has no room for two copies of the data: removing the old data first")
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

// KeptDirName is the name of the directory for old data that are kept.
func KeptDirName(at time.Time) string { return keptPrefix + at.UTC().Format("20060102T150405Z") }

// swapDataDirs makes the copy the data directory and removes the old data, or keeps them under a name. Between the two
// renames there is no data directory.
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

// RecoverReclone cleans up an interrupted Reclone: it puts the old data directory back if there is no new one, and removes
// the remains of copies. No process may use the volume.
func (s *Server) RecoverReclone(ctx context.Context) error {
	if err := s.requireIdle(ctx); err != nil {
		return err
	}
	content, _ := s.DataState() // the next inspection of the data directory reports it
	if content == Unrecognized {
		return nil
	}
	if aside, err := exists(s.oldDir()); err != nil {
		return err
	} else if aside && content == Empty {
		if err := errors.Join(removeAll(s.DataDir()), os.Rename(s.oldDir(), s.DataDir()), syncDir(s.options.Volume)); err != nil {
			return fmt.Errorf("restore the old data directory: %w", err)
		}
	}
	if err := errors.Join(s.removeClone(), removeAll(s.oldDir())); err != nil {
		return fmt.Errorf("remove the remains of a copy: %w", err)
	}
	return nil
}

func (s *Server) oldDir() string { return filepath.Join(s.options.Volume, oldName) }

// hasRoomForCopy estimates whether a copy fits beside the data directory. The copy has about the same size, and the source
// grows during the copy.
func (s *Server) hasRoomForCopy() (bool, error) {
	disk, err := s.Disk()
	if err != nil {
		return false, err
	}
	size, err := s.dataSize()
	return disk.Free > size+size/8+copyReserve, err
}

// copyReserve is the extra space for a copy: a few WAL segments.
const copyReserve = 64 << 20

// dataSize is the size of the data directory on the volume, in bytes.
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
