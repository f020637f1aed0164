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

// checkout is the folder hack of the checkout that the command was started in.
func checkout() (string, error) {
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
			return "", fmt.Errorf("%s is not in a checkout of Fettle (no hack/tools/bin here or above): run the command from one", dir)
		}
	}
}

// tools gives the folder with the binaries of a family of hack/tools, which are built if they are not in the cache. What
// is being built is noted.
func (c Config) tools(ctx context.Context, family string, say note) (string, error) {
	hack, err := checkout()
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
	cmd.Stderr = io.MultiWriter(file, lastLine{say})
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("build the tools of %s: %w; the end of %s:\n%s", family, err, log, tail(log))
	}
	return strings.TrimSpace(string(out)), nil
}

// lastLine notes the last line that is written to it.
type lastLine struct {
	say note
}

func (l lastLine) Write(data []byte) (int, error) {
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		l.say("%s", last)
	}
	return len(data), nil
}

// buildImageTool compiles hack/image, which serves the registry and makes the stand-in images, and returns the program
// and a digest of it.
func (c Config) buildImageTool(ctx context.Context) (path, digest string, err error) {
	hack, err := checkout()
	if err != nil {
		return "", "", err
	}
	built := c.Path("bin", "image.new")
	log := c.supervisor().LogFile("build-image")
	err = logged(ctx, log, []string{"CGO_ENABLED=0"}, "go", "-C", hack, "build", "-trimpath", "-buildvcs=false", "-o", built, "./image")
	if err != nil {
		return "", "", fmt.Errorf("compile hack/image: %w", err)
	}
	return install(built, c.Path("bin", "image"))
}

// installSelf keeps a copy of this program for the daemon that it serves as: `go run` deletes the original.
func (c Config) installSelf() (path, digest string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", "", fmt.Errorf("find this program: %w", err)
	}
	data, err := os.ReadFile(self)
	if err != nil {
		return "", "", fmt.Errorf("read this program: %w", err)
	}
	copied := c.Path("bin", "cluster.new")
	if err := os.WriteFile(copied, data, 0o755); err != nil {
		return "", "", fmt.Errorf("copy this program: %w", err)
	}
	return install(copied, c.Path("bin", "cluster"))
}

// install renames a new program to its final path, unless the one there is the same, and returns its digest. A process
// that runs the old one is not disturbed.
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
