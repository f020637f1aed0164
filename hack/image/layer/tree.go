package layer

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Owner returns the owner of a file in the image.
type Owner func(info fs.FileInfo) (uid, gid int)

// RootOwner sets the owner of all files to root.
func RootOwner(fs.FileInfo) (uid, gid int) { return 0, 0 }

// KeepOwner keeps the owners of the files on the host.
func KeepOwner(info fs.FileInfo) (uid, gid int) {
	stat := info.Sys().(*syscall.Stat_t)
	return int(stat.Uid), int(stat.Gid)
}

// AddTree adds the directory source recursively as target. It skips paths in the image, and everything below them, for which skip
// returns true; skip may be nil. It converts overlayfs whiteouts and opaque directories to those of image layers.
func (s Set) AddTree(source, target string, owner Owner, skip func(name string) bool) error {
	links := map[uint64]string{} // inode -> first path
	return filepath.WalkDir(source, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(source, file)
		if err != nil {
			return err
		}
		name := path.Join("/", target, filepath.ToSlash(relative))
		if skip != nil && skip(name) {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		entries, err := entriesOf(file, name, info, links)
		if err != nil {
			return fmt.Errorf("read %s for the image: %w", file, err)
		}
		for _, e := range entries {
			e.UID, e.GID = owner(info)
			s.Add(e)
		}
		return nil
	})
}

func entriesOf(file, name string, info fs.FileInfo, links map[uint64]string) ([]Entry, error) {
	mode := modeBits(info.Mode())
	stat := info.Sys().(*syscall.Stat_t)
	switch info.Mode().Type() {
	case fs.ModeDir:
		dir := Dir(name, mode)
		if isOpaque(file) {
			return []Entry{dir, {Path: path.Join(name, ".wh..wh..opq")}}, nil
		}
		return []Entry{dir}, nil
	case fs.ModeSymlink:
		target, err := os.Readlink(file)
		return []Entry{Symlink(name, target)}, err
	case fs.ModeDevice | fs.ModeCharDevice:
		if stat.Rdev == 0 {
			return []Entry{{Path: path.Join(path.Dir(name), ".wh."+path.Base(name))}}, nil
		}
		return nil, nil // the container runtime creates devices
	case 0:
		if first, ok := links[stat.Ino]; ok {
			return []Entry{{Path: name, Type: tar.TypeLink, Mode: mode, Link: first}}, nil
		}
		if stat.Nlink > 1 {
			links[stat.Ino] = name
		}
		open := func() (io.ReadCloser, error) { return os.Open(file) }
		return []Entry{{Path: name, Mode: mode, Size: info.Size(), Open: open}}, nil
	default:
		return nil, nil // sockets and pipes of running processes
	}
}

func isOpaque(dir string) bool {
	value := make([]byte, 1)
	n, err := unix.Lgetxattr(dir, "trusted.overlay.opaque", value)
	return err == nil && n == 1 && value[0] == 'y'
}

// Subtree returns the entries at prefix and below, moved to target.
func (s Set) Subtree(prefix, target string) Set {
	prefix = path.Join("/", prefix)
	moved := Set{}
	for name, e := range s {
		rest, ok := strings.CutPrefix(name, prefix)
		if !ok || rest != "" && !strings.HasPrefix(rest, "/") && prefix != "/" {
			continue
		}
		e.Path = path.Join(target, rest)
		moved.Add(e)
	}
	return moved
}

// Extract writes the set's directories and regular files to root, with their modes independent of the umask.
func (s Set) Extract(root string) error {
	all := s.withParents()
	for name, e := range all {
		if e.Type == tar.TypeDir {
			if err := os.MkdirAll(filepath.Join(root, name), 0o700); err != nil {
				return err
			}
		}
	}
	for name, e := range all {
		if err := extractFile(filepath.Join(root, name), e); err != nil {
			return fmt.Errorf("extract %s: %w", name, err)
		}
	}
	return nil
}

func extractFile(file string, e Entry) error {
	switch e.Type {
	case tar.TypeDir:
	case 0, tar.TypeReg:
		out, err := os.Create(file)
		if err != nil {
			return err
		}
		if err := errors.Join(e.copyTo(out), out.Close()); err != nil {
			return err
		}
	default:
		return fmt.Errorf("extracting links is not supported")
	}
	return os.Chmod(file, fs.FileMode(e.Mode&0o777))
}

// ReadAll reads all files into memory. Afterwards their sources can be deleted.
func (s Set) ReadAll() error {
	for name, e := range s {
		if e.Open == nil {
			continue
		}
		var content strings.Builder
		if err := e.copyTo(&content); err != nil {
			return fmt.Errorf("read %s for the image: %w", name, err)
		}
		loaded := Text(name, content.String(), e.Mode)
		loaded.UID, loaded.GID = e.UID, e.GID
		s[name] = loaded
	}
	return nil
}
