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

// Owner says who owns the files of a tree in the image.
type Owner func(info fs.FileInfo) (uid, gid int)

// Root gives everything to root.
func Root(fs.FileInfo) (uid, gid int) { return 0, 0 }

// Same keeps the owners that the files have on this machine.
func Same(info fs.FileInfo) (uid, gid int) {
	stat := info.Sys().(*syscall.Stat_t)
	return int(stat.Uid), int(stat.Gid)
}

// AddTree adds the folder at source, and all below it, as target. Paths for which skip is true (given as they will be in the image)
// are left out with all below them; skip may be nil. Whiteouts and opaque folders of an overlay's upper folder become those of an image.
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
		entries, err := treeEntries(file, name, info, links)
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

func treeEntries(file, name string, info fs.FileInfo, links map[uint64]string) ([]Entry, error) {
	mode := modeBits(info.Mode())
	stat := info.Sys().(*syscall.Stat_t)
	switch info.Mode().Type() {
	case fs.ModeDir:
		folder := Folder(name, mode)
		if isOpaque(file) {
			return []Entry{folder, {Path: path.Join(name, ".wh..wh..opq")}}, nil
		}
		return []Entry{folder}, nil
	case fs.ModeSymlink:
		target, err := os.Readlink(file)
		return []Entry{Symlink(name, target)}, err
	case fs.ModeDevice | fs.ModeCharDevice:
		if stat.Rdev == 0 {
			return []Entry{{Path: path.Join(path.Dir(name), ".wh."+path.Base(name))}}, nil
		}
		return nil, nil // the container runtime makes devices
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
		return nil, nil // sockets and pipes belong to running programs
	}
}

func isOpaque(folder string) bool {
	value := make([]byte, 1)
	n, err := unix.Lgetxattr(folder, "trusted.overlay.opaque", value)
	return err == nil && n == 1 && value[0] == 'y'
}

// Under is the part of the set at prefix and below, moved to target.
func (s Set) Under(prefix, target string) Set {
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

// Extract writes the set's folders and regular files below root, with their modes whatever the umask.
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
		return fmt.Errorf("links can't be extracted")
	}
	return os.Chmod(file, fs.FileMode(e.Mode&0o777))
}

// Load reads all files into memory, so that what they came from may go.
func (s Set) Load() error {
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
