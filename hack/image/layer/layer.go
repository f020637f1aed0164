// Package layer builds reproducible image layers: entries are sorted, timestamps are fixed, and nothing depends on the build
// machine.
package layer

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Epoch is the timestamp of all files and images.
var Epoch = time.Unix(0, 0).UTC()

// Entry is a file, directory, symbolic link, hard link or whiteout in a layer.
type Entry struct {
	// Path is absolute and clean.
	Path string
	// Type is a tar type flag; the zero value is a regular file.
	Type byte
	// Mode has the permission bits, and 04000, 02000 and 01000 for setuid, setgid and sticky.
	Mode int64
	UID  int
	GID  int
	// Link is the target of a symbolic or hard link.
	Link string
	// Size is the length of the content.
	Size int64
	// Open opens the content of a regular file.
	Open func() (io.ReadCloser, error)
}

// Set is the content of a layer by path. Missing parent directories are added, owned by root, mode 0755.
type Set map[string]Entry

// Add puts entries into the set; a later one replaces an earlier one of the same path.
func (s Set) Add(entries ...Entry) {
	for _, e := range entries {
		e.Path = path.Join("/", e.Path)
		s[e.Path] = e
	}
}

// Dir returns a directory owned by root.
func Dir(name string, mode int64) Entry {
	return Entry{Path: name, Type: tar.TypeDir, Mode: mode}
}

// Text returns a file owned by root with the given content.
func Text(name, content string, mode int64) Entry {
	return Entry{Path: name, Mode: mode, Size: int64(len(content)), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(content)), nil
	}}
}

// Symlink returns a symbolic link.
func Symlink(name, target string) Entry {
	return Entry{Path: name, Type: tar.TypeSymlink, Mode: 0o777, Link: target}
}

// File returns a copy of a file on the host, owned by root.
func File(name, source string, mode int64) (Entry, error) {
	info, err := os.Stat(source)
	if err != nil {
		return Entry{}, fmt.Errorf("read %s for the image: %w", source, err)
	}
	if !info.Mode().IsRegular() {
		return Entry{}, fmt.Errorf("%s is not a regular file", source)
	}
	return Entry{Path: name, Mode: mode, Size: info.Size(), Open: func() (io.ReadCloser, error) { return os.Open(source) }}, nil
}

// Layer compresses the set into a layer. The files are read lazily, so they must exist until the layer is read.
func (s Set) Layer() (v1.Layer, error) {
	open := func() (io.ReadCloser, error) {
		reader, writer := io.Pipe()
		go func() { writer.CloseWithError(s.write(writer)) }()
		return reader, nil
	}
	return tarball.LayerFromOpener(open, tarball.WithCompressedCaching)
}

func (s Set) write(w io.Writer) error {
	out := tar.NewWriter(w)
	all := s.withParents()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err := writeEntry(out, all[name]); err != nil {
			return fmt.Errorf("add %s to the layer: %w", name, err)
		}
	}
	return out.Close()
}

func (s Set) withParents() Set {
	all := maps.Clone(s)
	for name := range s {
		for dir := path.Dir(name); dir != "/"; dir = path.Dir(dir) {
			if _, ok := all[dir]; !ok {
				all[dir] = Dir(dir, 0o755)
			}
		}
	}
	delete(all, "/")
	return all
}

func writeEntry(out *tar.Writer, e Entry) error {
	kind := e.Type
	if kind == 0 {
		kind = tar.TypeReg
	}
	name := strings.TrimPrefix(e.Path, "/")
	if kind == tar.TypeDir {
		name += "/"
	}
	link := e.Link
	if kind == tar.TypeLink {
		link = strings.TrimPrefix(link, "/")
	}
	header := &tar.Header{
		Name: name, Typeflag: kind, Linkname: link, Mode: e.Mode, Uid: e.UID, Gid: e.GID, Size: e.Size, ModTime: Epoch,
	}
	if err := out.WriteHeader(header); err != nil {
		return err
	}
	if kind != tar.TypeReg {
		return nil
	}
	return e.copyTo(out)
}

// copyTo writes the content of a regular file.
func (e Entry) copyTo(out io.Writer) error {
	if e.Open == nil {
		return nil
	}
	content, err := e.Open()
	if err != nil {
		return err
	}
	_, err = io.Copy(out, content)
	return errors.Join(err, content.Close())
}

// modeBits converts permissions, setuid, setgid and sticky to tar's mode bits.
func modeBits(mode fs.FileMode) int64 {
	bits := int64(mode.Perm())
	for bit, flag := range map[fs.FileMode]int64{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if mode&bit != 0 {
			bits |= flag
		}
	}
	return bits
}
