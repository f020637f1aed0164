package standin

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/fettle-dev/fettle/hack/image/layer"
)

// Builder builds images and caches them.
type Builder struct {
	// Hack is the directory of this module.
	Hack string
	// Progress receives a line for each step.
	Progress io.Writer

	store   *store
	workDir string
	tools   map[string]string   // family -> directory of its binaries
	keys    map[string]string   // recipe -> key
	roots   map[string]string   // recipe -> extracted root directory
	images  map[string]v1.Image // recipe -> image
}

// New opens the cache directory and waits until no other process uses it. Call Close afterwards.
func New(hack, cache string, progress io.Writer) (*Builder, error) {
	opened, err := openStore(cache)
	if err != nil {
		return nil, err
	}
	// The directory has a fixed name, so the next run removes the files of a killed run. The store's lock allows only one run.
	workDir := filepath.Join(cache, "work")
	if err := os.RemoveAll(workDir); err != nil {
		return nil, fmt.Errorf("remove the files of an earlier build: %w", err)
	}
	return &Builder{
		Hack: hack, Progress: progress, store: opened, workDir: workDir,
		tools: map[string]string{}, keys: map[string]string{}, roots: map[string]string{}, images: map[string]v1.Image{},
	}, nil
}

// Close removes temporary files and unlocks the cache.
func (b *Builder) Close() error {
	if err := os.RemoveAll(b.workDir); err != nil {
		return err
	}
	return b.store.close()
}

// Image returns the recipe's image. It builds the image if it is not in the cache.
func (b *Builder) Image(ctx context.Context, name string) (v1.Image, error) {
	if image, ok := b.images[name]; ok {
		return image, nil
	}
	recipe, ok := findRecipe(name)
	if !ok {
		return nil, fmt.Errorf("no stand-in %q", name)
	}
	key, err := b.key(ctx, recipe)
	if err != nil {
		return nil, err
	}
	image, err := b.store.get(key)
	if err != nil {
		return nil, fmt.Errorf("cached image of %s: %w (remove %s to build it again)", name, err, b.store.dir)
	}
	if image == nil {
		if image, err = b.build(ctx, recipe, key); err != nil {
			return nil, fmt.Errorf("stand-in %s: %w", name, err)
		}
	}
	b.images[name] = image
	return image, nil
}

func (b *Builder) key(ctx context.Context, r *Recipe) (string, error) {
	if key, ok := b.keys[r.Name]; ok {
		return key, nil
	}
	base := ""
	if r.From != "" {
		from, ok := findRecipe(r.From)
		if !ok {
			return "", fmt.Errorf("recipe %s: no base %q", r.Name, r.From)
		}
		var err error
		if base, err = b.key(ctx, from); err != nil {
			return "", err
		}
	}
	versions := map[string]string{}
	for tool := range r.Tools {
		dir, err := b.toolDir(ctx, tool)
		if err != nil {
			return "", err
		}
		versions[tool] = filepath.Base(dir)
	}
	for pkg := range r.Programs {
		source, err := os.ReadFile(filepath.Join(b.Hack, pkg, "main.go"))
		if err != nil {
			return "", fmt.Errorf("recipe %s: %w", r.Name, err)
		}
		versions[pkg] = runtime.Version() + string(source)
	}
	key, err := r.key(base, versions)
	b.keys[r.Name] = key
	return key, err
}

func (b *Builder) build(ctx context.Context, r *Recipe, key string) (v1.Image, error) {
	var base v1.Image
	if r.From != "" {
		var err error
		if base, err = b.Image(ctx, r.From); err != nil {
			return nil, err
		}
	}
	started := time.Now()
	b.progressf("%s: building", r.Name)
	sets, cleanup, err := b.contentWithRetry(ctx, r)
	defer cleanup()
	if err != nil {
		return nil, err
	}
	image, err := layer.Image(base, runtime.GOARCH, r.configure, sets...)
	if err != nil {
		return nil, err
	}
	if image, err = b.store.put(key, image); err != nil {
		return nil, err
	}
	size, err := Size(image)
	if err != nil {
		return nil, err
	}
	b.progressf("%s: built in %.0f s, %.1f MB", r.Name, time.Since(started).Seconds(), float64(size)/1e6)
	return image, nil
}

// retryDelays are the delays between attempts of recipes that download from a Debian mirror.
var retryDelays = []time.Duration{5 * time.Second, 15 * time.Second, 45 * time.Second}

// contentWithRetry calls content and retries recipes that need the network.
func (b *Builder) contentWithRetry(ctx context.Context, r *Recipe) (sets []layer.Set, cleanup func(), err error) {
	sets, cleanup, err = b.content(ctx, r)
	for _, delay := range retryDelays {
		if err == nil || ctx.Err() != nil || !r.needsNetwork() {
			break
		}
		cleanup()
		b.progressf("%s: retrying in %s: %s", r.Name, delay, err)
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
		sets, cleanup, err = b.content(ctx, r)
	}
	return sets, cleanup, err
}

// progressf writes a progress line. It ignores write errors, because they must not stop the build.
func (b *Builder) progressf(format string, args ...any) {
	_, _ = fmt.Fprintf(b.Progress, "stand-ins: "+format+"\n", args...)
}

// content returns the recipe's layers, lowest first. Read the files before calling cleanup.
func (b *Builder) content(ctx context.Context, r *Recipe) (sets []layer.Set, cleanup func(), err error) {
	cleanup = func() {}
	if r.Suite != "" {
		set, err := b.debootstrap(ctx, r)
		if err != nil {
			return nil, cleanup, err
		}
		sets = append(sets, set)
	}
	ownFiles, err := r.ownFiles()
	if err != nil {
		return nil, cleanup, err
	}
	if len(r.Packages) > 0 {
		set, done, err := b.install(ctx, r, ownFiles)
		cleanup = done
		if err != nil {
			return nil, cleanup, err
		}
		return append(sets, set), cleanup, nil
	}
	if r.Busybox {
		if err := b.busybox(ctx, ownFiles); err != nil {
			return nil, cleanup, err
		}
	}
	if err := b.addPrograms(ctx, r, ownFiles); err != nil {
		return nil, cleanup, err
	}
	return append(sets, ownFiles), cleanup, nil
}

func (b *Builder) addPrograms(ctx context.Context, r *Recipe, set layer.Set) error {
	for tool, target := range r.Tools {
		dir, err := b.toolDir(ctx, tool)
		if err != nil {
			return err
		}
		_, binary, _ := strings.Cut(tool, "/")
		file, err := layer.File(target, filepath.Join(dir, binary), 0o755)
		if err != nil {
			return err
		}
		set.Add(file)
	}
	for _, pkg := range slices.Sorted(maps.Keys(r.Programs)) {
		binary := filepath.Join(b.workDir, "programs", pkg)
		command := exec.CommandContext(ctx, "go", "-C", b.Hack, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", binary, "./"+pkg)
		command.Env = append(os.Environ(), "CGO_ENABLED=0")
		if err := b.run(command); err != nil {
			return err
		}
		file, err := layer.File(r.Programs[pkg], binary, 0o755)
		if err != nil {
			return err
		}
		set.Add(file)
	}
	return nil
}

// toolDir builds the family of FAMILY/BINARY if needed and returns the directory of its binaries.
func (b *Builder) toolDir(ctx context.Context, tool string) (string, error) {
	family, _, _ := strings.Cut(tool, "/")
	if dir, ok := b.tools[family]; ok {
		return dir, nil
	}
	command := exec.CommandContext(ctx, filepath.Join(b.Hack, "tools", "bin"), family)
	command.Stderr = b.Progress
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("build the tools %s: %w", family, err)
	}
	b.tools[family] = strings.TrimSpace(string(out))
	return b.tools[family], nil
}

// run runs a command in a process group that is killed when the context is done. The error includes the end of the output.
func (b *Builder) run(command *exec.Cmd) error {
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	command.SysProcAttr.Setpgid = true
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = 5 * time.Second
	if err := command.Run(); err != nil {
		const limit = 4000
		text := output.Bytes()
		return fmt.Errorf("%s: %w\n%s", command.Path, err, text[max(0, len(text)-limit):])
	}
	return nil
}

// Size returns the compressed size of all layers in bytes.
func Size(image v1.Image) (int64, error) {
	layers, err := image.Layers()
	if err != nil {
		return 0, err
	}
	var total int64
	for _, l := range layers {
		size, err := l.Size()
		if err != nil {
			return 0, err
		}
		total += size
	}
	return total, nil
}
