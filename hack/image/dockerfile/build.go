package dockerfile

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/fettle-dev/fettle/hack/image/layer"
)

// Builder builds the last stage of a Dockerfile.
type Builder struct {
	// Context is the build context: the directory that COPY and ADD read from.
	Context string
	// Arch is the image's architecture.
	Arch string
	// Pull pulls a base image.
	Pull func(ctx context.Context, name string) (v1.Image, error)
	// Opm is the path of the opm binary that builds a catalog's cache.
	Opm string

	done map[string]*stageState
}

// stageState is the state of a stage during the build: base image, added files and image configuration.
type stageState struct {
	base   v1.Image // nil means scratch
	files  layer.Set
	config v1.Config
}

// Build builds the image of the last stage. All files of a stage become one layer.
func (b *Builder) Build(ctx context.Context, stages []Stage) (v1.Image, error) {
	b.done = map[string]*stageState{}
	var last *stageState
	for i, stage := range stages {
		s, err := b.from(ctx, stage.Base)
		if err != nil {
			return nil, err
		}
		for _, step := range stage.Steps {
			if err := b.step(ctx, s, step); err != nil {
				return nil, fmt.Errorf("line %d: %s: %w", step.Line, step.Instruction, err)
			}
		}
		b.done[strconv.Itoa(i)] = s
		if stage.Name != "" {
			b.done[stage.Name] = s
		}
		last = s
	}
	return layer.Image(last.base, b.Arch, func(c *v1.Config) { *c = last.config }, last.files)
}

func (b *Builder) from(ctx context.Context, base string) (*stageState, error) {
	if base == "scratch" {
		return &stageState{files: layer.Set{}}, nil
	}
	if earlier, ok := b.done[base]; ok {
		return &stageState{base: earlier.base, files: earlier.files.Subtree("/", "/"), config: *earlier.config.DeepCopy()}, nil
	}
	image, err := b.Pull(ctx, base)
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read the configuration of %s: %w", base, err)
	}
	return &stageState{base: image, files: layer.Set{}, config: *file.Config.DeepCopy()}, nil
}

func (b *Builder) step(ctx context.Context, s *stageState, step Step) error {
	switch step.Instruction {
	case "COPY", "ADD":
		return b.copy(s, step)
	case "RUN":
		return b.buildCache(ctx, s, step.Args)
	case "LABEL", "ENV":
		return setPairs(&s.config, step)
	}
	if len(step.Flags) > 0 {
		return fmt.Errorf("%s is not supported", step.Flags[0])
	}
	command := step.Args
	if !step.Exec {
		command = []string{"/bin/sh", "-c", strings.Join(step.Args, " ")}
	}
	switch step.Instruction {
	case "ENTRYPOINT":
		s.config.Entrypoint, s.config.Cmd = command, nil
	case "CMD":
		s.config.Cmd = command
	case "USER":
		s.config.User = step.Args[0]
	case "WORKDIR":
		s.config.WorkingDir = path.Join("/", s.config.WorkingDir, step.Args[0])
		if path.IsAbs(step.Args[0]) {
			s.config.WorkingDir = path.Clean(step.Args[0])
		}
	}
	return nil
}

func setPairs(config *v1.Config, step Step) error {
	pairs := step.Args
	if !strings.Contains(pairs[0], "=") { // legacy syntax: LABEL key value with spaces
		pairs = []string{pairs[0] + "=" + strings.Join(pairs[1:], " ")}
	}
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return fmt.Errorf("%q is not key=value", pair)
		}
		if step.Instruction == "LABEL" {
			if config.Labels == nil {
				config.Labels = map[string]string{}
			}
			config.Labels[key] = value
			continue
		}
		config.Env = slices.DeleteFunc(config.Env, func(e string) bool { return strings.HasPrefix(e, key+"=") })
		config.Env = append(config.Env, pair)
	}
	return nil
}

func (b *Builder) copy(s *stageState, step Step) error {
	if len(step.Args) < 2 {
		return fmt.Errorf("source or target is missing")
	}
	from, err := b.source(step.Flags)
	if err != nil {
		return err
	}
	sources, target := step.Args[:len(step.Args)-1], step.Args[len(step.Args)-1]
	intoDir := len(sources) > 1 || strings.HasSuffix(target, "/") || target == "."
	if !path.IsAbs(target) {
		target = path.Join("/", s.config.WorkingDir, target)
	}
	for _, source := range sources {
		found, isDir, err := b.read(from, source)
		if err != nil {
			return err
		}
		to := target
		if !isDir && intoDir {
			to = path.Join(target, path.Base(source))
		}
		for _, e := range found.Subtree("/", to) {
			s.files.Add(e)
		}
	}
	return nil
}

// source returns the files of the stage in --from; nil means the build context.
func (b *Builder) source(flags []string) (layer.Set, error) {
	var from layer.Set
	for _, flag := range flags {
		name, ok := strings.CutPrefix(flag, "--from=")
		if !ok {
			return nil, fmt.Errorf("%s is not supported", flag)
		}
		stage, ok := b.done[name]
		if !ok {
			return nil, fmt.Errorf("--from: no earlier stage is named %q", name)
		}
		from = stage.files
	}
	return from, nil
}

// read returns the source of COPY as a set with the source at /, and whether the source is a directory.
func (b *Builder) read(from layer.Set, source string) (layer.Set, bool, error) {
	if from != nil {
		found := from.Subtree(source, "/")
		if len(found) == 0 {
			return nil, false, fmt.Errorf("the stage has no file %s (copying files of its base image is not supported)", source)
		}
		_, isFile := found["/"]
		return found, !isFile || found["/"].Open == nil, nil
	}
	if !filepath.IsLocal(strings.TrimPrefix(source, "/")) {
		return nil, false, fmt.Errorf("%s is outside the build context", source)
	}
	file := filepath.Join(b.Context, source)
	info, err := os.Stat(file)
	if err != nil {
		return nil, false, err
	}
	found := layer.Set{}
	if err := found.AddTree(file, "/", layer.RootOwner, nil); err != nil {
		return nil, false, err
	}
	for name, e := range found { // independent of the umask of the checkout
		if e.Type == tar.TypeDir || e.Mode&0o111 != 0 {
			e.Mode = 0o755
		} else if e.Type != tar.TypeSymlink {
			e.Mode = 0o644
		}
		found[name] = e
	}
	return found, info.IsDir(), nil
}

// buildCache runs opm on the host, with a temporary directory as the stage's root. File modes are kept, because opm's cache digest
// includes them.
func (b *Builder) buildCache(ctx context.Context, s *stageState, args []string) error {
	root, err := os.MkdirTemp("", "fettle-catalog-")
	if err != nil {
		return err
	}
	return errors.Join(b.buildCacheIn(ctx, root, s, args), os.RemoveAll(root))
}

func (b *Builder) buildCacheIn(ctx context.Context, root string, s *stageState, args []string) error {
	configs, cache := args[2], strings.TrimPrefix(args[3], "--cache-dir=")
	if err := s.files.Subtree(configs, configs).Extract(root); err != nil {
		return err
	}
	command := exec.CommandContext(ctx, b.Opm, "serve", filepath.Join(root, configs), "--cache-dir="+filepath.Join(root, cache),
		"--cache-only", "--pprof-addr=", "--termination-log="+filepath.Join(root, "termination-log"))
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, output)
	}
	cacheFiles := layer.Set{}
	if err := cacheFiles.AddTree(filepath.Join(root, cache), cache, layer.RootOwner, nil); err != nil {
		return err
	}
	if err := cacheFiles.ReadAll(); err != nil {
		return err
	}
	s.files.Add(layer.Dir("/tmp", 0o1777))
	for _, e := range cacheFiles {
		s.files.Add(e)
	}
	return nil
}
