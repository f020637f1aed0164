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

// Builder makes images and keeps them.
type Builder struct {
	// Hack is the folder of this module's source.
	Hack string
	// Progress gets a line for each step.
	Progress io.Writer

	store *store
	work  string
	tools map[string]string   // family -> folder of its binaries
	keys  map[string]string   // recipe -> key
	roots map[string]string   // recipe -> extracted root
	made  map[string]v1.Image // recipe -> image
}

// New opens the cache in folder, waiting for another process that uses it. Close it.
func New(hack, cache string, progress io.Writer) (*Builder, error) {
	opened, err := openStore(cache)
	if err != nil {
		return nil, err
	}
	// The folder has a fixed name: what a killed run left is removed by the next one, which the store's lock makes the only one.
	work := filepath.Join(cache, "work")
	if err := os.RemoveAll(work); err != nil {
		return nil, fmt.Errorf("remove what an earlier build left: %w", err)
	}
	return &Builder{
		Hack: hack, Progress: progress, store: opened, work: work,
		tools: map[string]string{}, keys: map[string]string{}, roots: map[string]string{}, made: map[string]v1.Image{},
	}, nil
}

// Close removes what was only needed while building, and lets others use the cache.
func (b *Builder) Close() error {
	if err := os.RemoveAll(b.work); err != nil {
		return err
	}
	return b.store.close()
}

// Image is the recipe's image, from the cache if it was made before.
func (b *Builder) Image(ctx context.Context, name string) (v1.Image, error) {
	if image, ok := b.made[name]; ok {
		return image, nil
	}
	recipe, ok := find(name)
	if !ok {
		return nil, fmt.Errorf("there is no stand-in %q", name)
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
		if image, err = b.make(ctx, recipe, key); err != nil {
			return nil, fmt.Errorf("stand-in %s: %w", name, err)
		}
	}
	b.made[name] = image
	return image, nil
}

func (b *Builder) key(ctx context.Context, r *Recipe) (string, error) {
	if key, ok := b.keys[r.Name]; ok {
		return key, nil
	}
	base := ""
	if r.From != "" {
		from, ok := find(r.From)
		if !ok {
			return "", fmt.Errorf("recipe %s: there is no base %q", r.Name, r.From)
		}
		var err error
		if base, err = b.key(ctx, from); err != nil {
			return "", err
		}
	}
	versions := map[string]string{}
	for tool := range r.Tools {
		folder, err := b.toolFolder(ctx, tool)
		if err != nil {
			return "", err
		}
		versions[tool] = filepath.Base(folder)
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

func (b *Builder) make(ctx context.Context, r *Recipe, key string) (v1.Image, error) {
	var base v1.Image
	if r.From != "" {
		var err error
		if base, err = b.Image(ctx, r.From); err != nil {
			return nil, err
		}
	}
	started := time.Now()
	b.say("%s: building", r.Name)
	sets, cleanup, err := b.patiently(ctx, r)
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
	b.say("%s: built in %.0f s, %.1f MB", r.Name, time.Since(started).Seconds(), float64(size)/1e6)
	return image, nil
}

// pauses are the times before another try where a recipe fetches from a mirror, which may fail.
var pauses = []time.Duration{5 * time.Second, 15 * time.Second, 45 * time.Second}

// patiently is content, tried again where the network may be at fault.
func (b *Builder) patiently(ctx context.Context, r *Recipe) (sets []layer.Set, cleanup func(), err error) {
	sets, cleanup, err = b.content(ctx, r)
	for _, pause := range pauses {
		if err == nil || ctx.Err() != nil || !r.fetches() {
			break
		}
		cleanup()
		b.say("%s: again in %s: %s", r.Name, pause, err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		sets, cleanup, err = b.content(ctx, r)
	}
	return sets, cleanup, err
}

// say writes a line of progress. That nobody reads it is no reason to stop.
func (b *Builder) say(format string, args ...any) {
	_, _ = fmt.Fprintf(b.Progress, "stand-ins: "+format+"\n", args...)
}

// content is the recipe's layers, lowest first. The files must be read before cleanup.
func (b *Builder) content(ctx context.Context, r *Recipe) (sets []layer.Set, cleanup func(), err error) {
	cleanup = func() {}
	if r.Suite != "" {
		set, err := b.debootstrap(ctx, r)
		if err != nil {
			return nil, cleanup, err
		}
		sets = append(sets, set)
	}
	own, err := r.own()
	if err != nil {
		return nil, cleanup, err
	}
	if len(r.Packages) > 0 {
		set, done, err := b.install(ctx, r, own)
		cleanup = done
		if err != nil {
			return nil, cleanup, err
		}
		return append(sets, set), cleanup, nil
	}
	if r.Busybox {
		if err := b.busybox(ctx, own); err != nil {
			return nil, cleanup, err
		}
	}
	if err := b.addPrograms(ctx, r, own); err != nil {
		return nil, cleanup, err
	}
	return append(sets, own), cleanup, nil
}

func (b *Builder) addPrograms(ctx context.Context, r *Recipe, set layer.Set) error {
	for tool, target := range r.Tools {
		folder, err := b.toolFolder(ctx, tool)
		if err != nil {
			return err
		}
		_, binary, _ := strings.Cut(tool, "/")
		file, err := layer.File(target, filepath.Join(folder, binary), 0o755)
		if err != nil {
			return err
		}
		set.Add(file)
	}
	for _, pkg := range slices.Sorted(maps.Keys(r.Programs)) {
		binary := filepath.Join(b.work, "programs", pkg)
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

// toolFolder builds the family of FAMILY/BINARY if need be.
func (b *Builder) toolFolder(ctx context.Context, tool string) (string, error) {
	family, _, _ := strings.Cut(tool, "/")
	if folder, ok := b.tools[family]; ok {
		return folder, nil
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

// run runs a command to its end, in a process group that dies with the context, and returns what it printed if it fails.
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
		const most = 4000
		text := output.Bytes()
		return fmt.Errorf("%s: %w\n%s", command.Path, err, text[max(0, len(text)-most):])
	}
	return nil
}

// Size is what a pull of the whole image transfers, in bytes.
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
