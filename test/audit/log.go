package audit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Position is a position in the log. It remains valid across rotations.
type Position struct {
	inode  uint64
	offset int64
}

// errStop ends a scan early.
var errStop = errors.New("stop")

// end is the position after the current end of the log.
func end(path string) (Position, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Position{}, fmt.Errorf("audit log: %w", err)
	}
	return Position{inode: inode(info), offset: info.Size()}, nil
}

func inode(info os.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Ino
	}
	return 0
}

// scan calls visit with each complete line from a position on, through rotated files to the end of the current one. It returns the position
// after the last visited line.
func scan(path string, from Position, visit func(line []byte) error) (Position, error) {
	files, err := filesFrom(path, from)
	if err != nil {
		return from, err
	}
	at := from
	for _, file := range files {
		at, err = scanFile(file, from, visit)
		if errors.Is(err, errStop) {
			return at, nil
		}
		if err != nil {
			return at, fmt.Errorf("audit log %s: %w", file, err)
		}
	}
	return at, nil
}

// filesFrom returns the file of from and all newer ones. Rotation renames audit.log to audit-<time>.log.
func filesFrom(path string, from Position) ([]string, error) {
	extension := filepath.Ext(path)
	files, err := filepath.Glob(strings.TrimSuffix(path, extension) + "-*" + extension)
	if err != nil {
		return nil, err
	}
	slices.Sort(files) // the time in the name sorts like text
	files = append(files, path)
	for i, file := range files {
		info, err := os.Stat(file)
		if errors.Is(err, os.ErrNotExist) {
			continue // rotated away meanwhile
		}
		if err != nil {
			return nil, err
		}
		if inode(info) == from.inode {
			return files[i:], nil
		}
	}
	return nil, fmt.Errorf("audit log %s: rotation has deleted the marked file: keep more files, or read the log sooner", path)
}

func scanFile(file string, from Position, visit func([]byte) error) (Position, error) {
	f, err := os.Open(file)
	if err != nil {
		return from, err
	}
	defer func() { _ = f.Close() }() // it is only read
	info, err := f.Stat()
	if err != nil {
		return from, err
	}
	at := Position{inode: inode(info)}
	if at.inode == from.inode {
		at.offset = from.offset
	}
	if _, err := f.Seek(at.offset, io.SeekStart); err != nil {
		return at, err
	}
	reader := bufio.NewReaderSize(f, 1<<16)
	for {
		data, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return at, nil // a line without a newline is still being written
		}
		if err != nil {
			return at, err
		}
		at.offset += int64(len(data))
		if err := visit(bytes.TrimSpace(data)); err != nil {
			return at, err
		}
	}
}
