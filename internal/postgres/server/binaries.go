package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// Binaries are the programs of one PostgreSQL installation.
type Binaries struct {
	// Dir is the directory of the programs.
	Dir string
	// Major and Version come from `postgres --version`, for example 15 and 15.18.
	Major   int
	Version string
}

// binDirs are the directories of known installations: Debian and its official image, the official Alpine image, and others.
var binDirs = []string{"/usr/lib/postgresql/*/bin", "/usr/local/bin", "/usr/pgsql-*/bin", "/usr/libexec/postgresql*"}

// FindBinaries returns the newest installation in binDirs and PATH.
func FindBinaries(ctx context.Context) (Binaries, error) {
	var candidates []string
	for _, pattern := range binDirs {
		matches, err := filepath.Glob(filepath.Join(pattern, "postgres"))
		if err != nil {
			return Binaries{}, err
		}
		candidates = append(candidates, matches...)
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		candidates = append(candidates, path)
	}
	var found []Binaries
	for _, path := range candidates {
		b, err := BinariesIn(ctx, filepath.Dir(path))
		if err != nil {
			return Binaries{}, err
		}
		found = append(found, b)
	}
	if len(found) == 0 {
		return Binaries{}, fmt.Errorf("PostgreSQL is not installed in %v or PATH: use an official postgres image", binDirs)
	}
	return slices.MaxFunc(found, func(a, b Binaries) int { return a.Major - b.Major }), nil
}

var versionPattern = regexp.MustCompile(`\) ((\d+)[.\w]*)`)

// BinariesIn reads the version of the programs in a directory.
func BinariesIn(ctx context.Context, dir string) (Binaries, error) {
	path := filepath.Join(dir, "postgres")
	cmd := exec.CommandContext(ctx, path, "--version") //nolint:gosec // a program of the image
	var output bytes.Buffer
	cmd.Stdout = &output
	if err := runChild(cmd); err != nil {
		return Binaries{}, fmt.Errorf("read the version of %s: %w", path, err)
	}
	match := versionPattern.FindSubmatch(output.Bytes())
	if match == nil {
		return Binaries{}, fmt.Errorf("read the version of %s: unexpected output %q", path, output.String())
	}
	major, err := strconv.Atoi(string(match[2]))
	return Binaries{Dir: dir, Major: major, Version: string(match[1])}, err
}

// path returns the path of a program. Some packages leave tools out.
func (b Binaries) path(program string) (string, error) {
	path := filepath.Join(b.Dir, program)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("the image has no %s in %s: use an official postgres image", program, b.Dir)
	}
	return path, nil
}
