package server

import (
	"errors"
	"os"
	"path/filepath"
)

// chown gives a file to whom PostgreSQL runs as.
func (s *Server) chown(path string) error {
	if c := s.options.Credential; c != nil {
		return os.Lchown(path, int(c.Uid), int(c.Gid))
	}
	return nil
}

// write replaces a file of PostgreSQL's, as WriteFile does.
func (s *Server) write(path string, content []byte) error { return replaceFile(path, content, s.chown) }

// WriteFile replaces a file, so that after a crash of the machine either the old or the new content is there, whole. When it
// returns without an error it is the new one. The folder is made where it is missing.
func WriteFile(path string, content []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := replaceFile(path, content, func(string) error { return nil }); err != nil {
		return err
	}
	return syncDir(filepath.Dir(dir)) // the folder may be new, also if it was made by a process that ended before this
}

// RemoveFile removes a file, so that a crash of the machine does not bring it back. There may be none.
func RemoveFile(path string) error {
	if err := os.Remove(path); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	return syncDir(filepath.Dir(path))
}

// replaceFile writes the new content beside the old, and has own give it to whom it shall belong to. The name comes to mean
// it only once it is on the disk.
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

// syncFile makes a file, or the names in a folder, survive a crash of the machine. Tests look at what it is called with.
var syncFile = (*os.File).Sync

// syncDir makes the names in a folder survive a crash of the machine.
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
	// autoConf is what ALTER SYSTEM writes.
	autoConf = "postgresql.auto.conf"
)

// SetStandby decides whether the server, when it is started, is a standby.
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

// IsStandby says whether the data directory is that of a standby.
func (s *Server) IsStandby() (bool, error) { return exists(filepath.Join(s.DataDir(), standbySignal)) }
