package server

import (
	"errors"
	"os"
	"path/filepath"
)

// chown gives a file to the user that PostgreSQL runs as.
func (s *Server) chown(path string) error {
	if c := s.options.Credential; c != nil {
		return os.Lchown(path, int(c.Uid), int(c.Gid))
	}
	return nil
}

// write replaces a file owned by PostgreSQL's user. See WriteFile.
func (s *Server) write(path string, content []byte) error { return replaceFile(path, content, s.chown) }

// WriteFile atomically replaces a file: after a node crash it has either the old or the new content, complete. The new
// content is durable when WriteFile returns without an error. Missing directories are created.
func WriteFile(path string, content []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := replaceFile(path, content, func(string) error { return nil }); err != nil {
		return err
	}
	return syncDir(filepath.Dir(dir)) // the directory may be new, even if an earlier process created it
}

// RemoveFile removes a file durably: a node crash does not bring it back. It is no error if the file is missing.
func RemoveFile(path string) error {
	if err := os.Remove(path); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	return syncDir(filepath.Dir(path))
}

// replaceFile writes the new content to a temporary file, calls chown on it, and renames it once it is on disk.
func replaceFile(path string, content []byte, chown func(path string) error) error {
	temporary := path + ".new"
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, syncFile(f), f.Close(), chown(temporary))
	if err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	if err := os.Rename(temporary, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncFile flushes a file or directory to disk. Tests replace it.
var syncFile = (*os.File).Sync

// syncDir flushes a directory to disk, which makes its entries durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(syncFile(d), d.Close())
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

const (
	standbySignal  = "standby.signal"
	recoverySignal = "recovery.signal"
	// recoveryConf configured recovery before PostgreSQL 12. promoteFile requests a promotion.
	recoveryConf, promoteFile = "recovery.conf", "promote"
	// autoConf is the file that ALTER SYSTEM writes.
	autoConf = "postgresql.auto.conf"
)

// SetStandby sets whether the server starts as a standby.
func (s *Server) SetStandby(standby bool) error {
	path := filepath.Join(s.DataDir(), standbySignal)
	marked, err := exists(path)
	if err != nil || marked == standby {
		return err
	}
	if standby {
		return s.write(path, nil)
	}
	return RemoveFile(path)
}

// IsStandby returns whether the server starts as a standby.
func (s *Server) IsStandby() (bool, error) { return exists(filepath.Join(s.DataDir(), standbySignal)) }
