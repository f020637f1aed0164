package server

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/fettle-dev/fettle/internal/postgres/config"
)

// backupLabel is the file with the position that recovery of a base backup starts from. tablespaceMap lists tablespaces, none if
// it is empty.
const backupLabel, tablespaceMap = "backup_label", "tablespace_map"

// notRestored are files of a base backup that are not restored: the configuration of another server, and requests to it.
var notRestored = map[string]bool{
	config.ConfFile: true, config.HBAFile: true, config.IdentFile: true, autoConf: true, recoveryConf: true,
	recoverySignal: true, standbySignal: true, promoteFile: true, tablespaceMap: true, "postmaster.pid": true, "postmaster.opts": true, "backup_manifest": true,
}

// extract writes a base backup, a tar archive, into an empty directory. The contents are not trusted: nothing is written
// outside of the directory, only regular files and directories are created, and the files have at most size bytes together. WAL and
// configuration are left out.
func (s *Server) extract(ctx context.Context, from io.Reader, dir string, size int64) error {
	if err := s.makeDir(dir); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("extract the backup: %w", err)
	}
	defer root.Close() //nolint:errcheck // nothing is written to it
	out := extraction{root: root, left: size, chown: func(name string) error { return s.chown(filepath.Join(dir, name)) }}
	entries := tar.NewReader(from)
	for ctx.Err() == nil {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = out.add(header, entries)
		}
		if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) {
			return damaged("it is no complete archive")
		}
		if err != nil {
			return fmt.Errorf("extract the backup: %w", err)
		}
	}
	if _, err := root.Stat(backupLabel); err != nil && ctx.Err() == nil {
		return damaged("it has no %s", backupLabel)
	}
	return ctx.Err()
}

// damaged is an error about the contents of a backup.
func damaged(format string, arguments ...any) *SourceError {
	return &SourceError{
		Kind: BackupDamaged, Expensive: true,
		Message: "the base backup cannot be restored: " + fmt.Sprintf(format, arguments...) + ". Choose another one with spec.bootstrap.recovery.location.run",
	}
}

// extraction writes the entries of an archive.
type extraction struct {
	root *os.Root
	// left is how many bytes files may still get. An archive can have holes: a file is then larger than what is read for it.
	left   int64
	chown  func(name string) error
	buffer []byte
}

// entryName returns the name of an entry without "./" and a slash at its end; an error if the entry lies outside.
func entryName(name string) (string, error) {
	clean := path.Clean(name)
	if name == "" || !filepath.IsLocal(clean) || strings.ContainsAny(name, "\\\x00") {
		return "", damaged("the name %q is not inside the data directory", name)
	}
	return clean, nil
}

func (e *extraction) add(header *tar.Header, content io.Reader) error {
	name, err := entryName(header.Name)
	if err != nil {
		return err
	}
	top, below, _ := strings.Cut(name, "/")
	switch {
	case header.Typeflag != tar.TypeReg && header.Typeflag != tar.TypeDir:
		return damaged("%q is neither a file nor a directory", name)
	case name == tablespaceMap && header.Size > 0, top == "pg_tblspc" && below != "":
		return damaged("it has tablespaces, which are not supported")
	case header.Typeflag == tar.TypeDir:
		return e.directory(name)
	case top == "pg_wal", notRestored[name]:
		return nil
	case header.Size > e.left:
		return damaged("%q is larger than the whole backup", name)
	}
	e.left -= header.Size
	if err := e.directory(path.Dir(name)); err != nil {
		return err
	}
	return e.file(name, content)
}

func (e *extraction) directory(name string) error {
	if name == "." {
		return nil
	}
	if info, err := e.root.Stat(name); err == nil && info.IsDir() {
		return nil
	}
	if err := e.directory(path.Dir(name)); err != nil {
		return err
	}
	if err := e.root.Mkdir(name, 0o700); err != nil {
		return err
	}
	return e.chown(name)
}

// file writes a file. It is not flushed: PostgreSQL flushes the whole data directory before it starts to recover.
func (e *extraction) file(name string, content io.Reader) error {
	f, err := e.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if e.buffer == nil {
		e.buffer = make([]byte, 256<<10)
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, content, e.buffer)
	return errors.Join(err, f.Close(), e.chown(name))
}
