package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// findHackDir returns the directory hack/ of the checkout that the working directory is in.
func findHackDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	for at := dir; ; at = filepath.Dir(at) {
		for _, candidate := range []string{at, filepath.Join(at, "hack")} {
			if _, err := os.Stat(filepath.Join(candidate, "tools", "bin")); err == nil {
				return candidate, nil
			}
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("%s is not in a checkout of Fettle (no hack/tools/bin found): run the command in a checkout", dir)
		}
	}
}

// tools returns the directory of the binaries of a family in hack/tools. It builds binaries that are not in the cache and
// reports the progress.
func (c Config) tools(ctx context.Context, family string, report reporter) (string, error) {
	hack, err := findHackDir()
	if err != nil {
		return "", err
	}
	log := filepath.Join(c.Path("log"), "build-"+family+".log")
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return "", fmt.Errorf("open the log of the build: %w", err)
	}
	defer func() { _ = file.Close() }()
	cmd := exec.CommandContext(ctx, filepath.Join(hack, "tools", "bin"), family)
	cmd.Env = append(os.Environ(), "FETTLE_CACHE="+c.Cache)
	cmd.Stderr = io.MultiWriter(file, lineReporter{report})
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("build the tools %s: %w; last lines of %s:\n%s", family, err, log, tail(log))
	}
	return strings.TrimSpace(string(out)), nil
}

// lineReporter reports the last line of each write.
type lineReporter struct {
	report reporter
}

func (l lineReporter) Write(data []byte) (int, error) {
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		l.report("%s", last)
	}
	return len(data), nil
}

// installSelf copies this binary for the storage daemon, because `go run` deletes the original.
func (c Config) installSelf() (path, digest string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", "", fmt.Errorf("find this binary: %w", err)
	}
	data, err := os.ReadFile(self)
	if err != nil {
		return "", "", fmt.Errorf("read this binary: %w", err)
	}
	copied := c.Path("bin", "cluster.new")
	if err := os.WriteFile(copied, data, 0o755); err != nil {
		return "", "", fmt.Errorf("copy this binary: %w", err)
	}
	return install(copied, c.Path("bin", "cluster"))
}

// install renames a new binary to its final path, unless the existing binary is the same, and returns its digest. Processes
// of the old binary keep running.
func install(built, path string) (string, string, error) {
	data, err := os.ReadFile(built)
	if err != nil {
		return "", "", fmt.Errorf("read %s: %w", built, err)
	}
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:8])
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return path, digest, os.Remove(built)
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", "", fmt.Errorf("read %s: %w", path, err)
	}
	if err := os.Rename(built, path); err != nil {
		return "", "", fmt.Errorf("install %s: %w", path, err)
	}
	return path, digest, nil
}
