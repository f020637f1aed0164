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
	// Context is the folder that COPY and ADD read from.
	Context string
	// Arch is the image's architecture.
	Arch string
	// Pull finds base images.
	Pull func(ctx context.Context, name string) (v1.Image, error)
	// Opm is the program that makes a catalog's cache.
	Opm string

	done map[string]*built
}

// built is a stage as far as it has been built: its base, what it added, and how that is to be run.
type built struct {
	base   v1.Image // nil is scratch
	files  layer.Set
	config v1.Config
}

// Build makes the image of the last stage. What a stage adds becomes one layer.
func (b *Builder) Build(ctx context.Context, stages []Stage) (v1.Image, error) {
	b.done = map[string]*built{}
	var last *built
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

func (b *Builder) from(ctx context.Context, base string) (*built, error) {
	if base == "scratch" {
		return &built{files: layer.Set{}}, nil
	}
	if earlier, ok := b.done[base]; ok {
		return &built{base: earlier.base, files: earlier.files.Under("/", "/"), config: *earlier.config.DeepCopy()}, nil
	}
	image, err := b.Pull(ctx, base)
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read the configuration of %s: %w", base, err)
	}
	return &built{base: image, files: layer.Set{}, config: *file.Config.DeepCopy()}, nil
}

func (b *Builder) step(ctx context.Context, s *built, step Step) error {
	switch step.Instruction {
	case "COPY", "ADD":
		return b.copy(s, step)
	case "RUN":
		return b.cache(ctx, s, step.Words)
	case "LABEL", "ENV":
		return setPairs(&s.config, step)
	}
	if len(step.Flags) > 0 {
		return fmt.Errorf("%s is not supported", step.Flags[0])
	}
	command := step.Words
	if !step.Exec {
		command = []string{"/bin/sh", "-c", strings.Join(step.Words, " ")}
	}
	switch step.Instruction {
	case "ENTRYPOINT":
		s.config.Entrypoint, s.config.Cmd = command, nil
	case "CMD":
		s.config.Cmd = command
	case "USER":
		s.config.User = step.Words[0]
	case "WORKDIR":
		s.config.WorkingDir = path.Join("/", s.config.WorkingDir, step.Words[0])
		if path.IsAbs(step.Words[0]) {
			s.config.WorkingDir = path.Clean(step.Words[0])
		}
	}
	return nil
}

func setPairs(config *v1.Config, step Step) error {
	pairs := step.Words
	if !strings.Contains(pairs[0], "=") { // the old form: LABEL key the value
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

func (b *Builder) copy(s *built, step Step) error {
	if len(step.Words) < 2 {
		return fmt.Errorf("needs a source and a target")
	}
	from, err := b.source(step.Flags)
	if err != nil {
		return err
	}
	sources, target := step.Words[:len(step.Words)-1], step.Words[len(step.Words)-1]
	intoFolder := len(sources) > 1 || strings.HasSuffix(target, "/") || target == "."
	if !path.IsAbs(target) {
		target = path.Join("/", s.config.WorkingDir, target)
	}
	for _, source := range sources {
		found, isFolder, err := b.read(from, source)
		if err != nil {
			return err
		}
		to := target
		if !isFolder && intoFolder {
			to = path.Join(target, path.Base(source))
		}
		for _, e := range found.Under("/", to) {
			s.files.Add(e)
		}
	}
	return nil
}

// source is the stage that --from names; nil is the build context.
func (b *Builder) source(flags []string) (layer.Set, error) {
	var from layer.Set
	for _, flag := range flags {
		name, ok := strings.CutPrefix(flag, "--from=")
		if !ok {
			return nil, fmt.Errorf("%s is not supported", flag)
		}
		stage, ok := b.done[name]
		if !ok {
			return nil, fmt.Errorf("--from: there is no stage %q before this one", name)
		}
		from = stage.files
	}
	return from, nil
}

// read finds what COPY names, with the source itself at /.
func (b *Builder) read(from layer.Set, source string) (layer.Set, bool, error) {
	if from != nil {
		found := from.Under(source, "/")
		if len(found) == 0 {
			return nil, false, fmt.Errorf("the stage added no %s (files of its base image can't be copied)", source)
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
	if err := found.AddTree(file, "/", layer.Root, nil); err != nil {
		return nil, false, err
	}
	for name, e := range found { // whatever the umask under which the context was checked out
		if e.Type == tar.TypeDir || e.Mode&0o111 != 0 {
			e.Mode = 0o755
		} else if e.Type != tar.TypeSymlink {
			e.Mode = 0o644
		}
		found[name] = e
	}
	return found, info.IsDir(), nil
}

// cache runs opm on this machine, in a folder that stands for the stage's root. Modes are kept as they are, because opm's check of the
// cache includes them.
func (b *Builder) cache(ctx context.Context, s *built, words []string) error {
	root, err := os.MkdirTemp("", "fettle-catalog-")
	if err != nil {
		return err
	}
	return errors.Join(b.cacheIn(ctx, root, s, words), os.RemoveAll(root))
}

func (b *Builder) cacheIn(ctx context.Context, root string, s *built, words []string) error {
	configs, cache := words[2], strings.TrimPrefix(words[3], "--cache-dir=")
	if err := s.files.Under(configs, configs).Extract(root); err != nil {
		return err
	}
	command := exec.CommandContext(ctx, b.Opm, "serve", filepath.Join(root, configs), "--cache-dir="+filepath.Join(root, cache),
		"--cache-only", "--pprof-addr=", "--termination-log="+filepath.Join(root, "termination-log"))
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, output)
	}
	made := layer.Set{}
	if err := made.AddTree(filepath.Join(root, cache), cache, layer.Root, nil); err != nil {
		return err
	}
	if err := made.Load(); err != nil {
		return err
	}
	s.files.Add(layer.Folder("/tmp", 0o1777))
	for _, e := range made {
		s.files.Add(e)
	}
	return nil
}
