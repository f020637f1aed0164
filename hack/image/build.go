package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"

	"github.com/fettle-dev/fettle/hack/image/layer"
	"github.com/fettle-dev/fettle/hack/image/registry"
)

type build struct {
	output
	binaries   []string
	base       string
	entrypoint []string
	command    []string
	user       string
	files      []string
	dirs       []string
	labels     []string
	env        []string
	caBundle   string
}

func buildCommand() *cobra.Command {
	b := &build{}
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build an image from static binaries and files",
		Long: "Build an image from static binaries and files. The build is reproducible. The base \"static\" has users, CA certificates\n" +
			"and /tmp. Repeat --binary once per architecture for a multi-architecture image.",
		Example: "  image build --binary bin/fettle --name ghcr.io/fettle-dev/fettle:v0.0.1 --push 172.30.0.1:5000 --ca ca.crt",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return b.run(cmd) },
	}
	flags := cmd.Flags()
	b.flags(cmd)
	flags.StringArrayVar(&b.binaries, "binary", nil, "static binary, copied to / and used as entrypoint (repeat for each architecture)")
	flags.BoolVar(&b.index, "index", false, "create an image index even for one architecture, like published images")
	flags.StringVar(&b.base, "base", "static", "base: static (users, CA certificates, /tmp), empty, or an image in the registry")
	flags.StringArrayVar(&b.entrypoint, "entrypoint", nil, "entrypoint, one word per flag (default: the binary)")
	flags.StringArrayVar(&b.command, "cmd", nil, "default arguments, one word per flag")
	flags.StringVar(&b.user, "user", "65532:65532", "user and group of the image, as UID:GID")
	flags.StringArrayVar(&b.files, "file", nil, "file to add, as SOURCE:TARGET")
	flags.StringArrayVar(&b.dirs, "dir", nil, "directory to add, as SOURCE:TARGET")
	flags.StringArrayVar(&b.labels, "label", nil, "label, as KEY=VALUE")
	flags.StringArrayVar(&b.env, "env", nil, "environment variable, as KEY=VALUE")
	flags.StringVar(&b.caBundle, "ca-certificates", "/etc/ssl/certs/ca-certificates.crt", "CA bundle of the static base; empty for none")
	require(cmd, "binary")
	return cmd
}

func (b *build) run(cmd *cobra.Command) error {
	images := make([]v1.Image, 0, len(b.binaries))
	for _, binary := range b.binaries {
		image, err := b.image(cmd, binary)
		if err != nil {
			return err
		}
		images = append(images, image)
	}
	return b.write(cmd, images...)
}

func (b *build) image(cmd *cobra.Command, binary string) (v1.Image, error) {
	arch, err := architecture(binary)
	if err != nil {
		return nil, err
	}
	var base v1.Image
	baseFiles := layer.Set{}
	switch b.base {
	case "empty":
	case "static":
		if baseFiles, err = staticBase(b.caBundle); err != nil {
			return nil, err
		}
	default:
		client, err := registry.NewClient(b.push, b.ca)
		if err != nil {
			return nil, err
		}
		if base, err = client.Pull(cmd.Context(), b.base); err != nil {
			return nil, err
		}
	}
	program := path.Join("/", filepath.Base(b.binaries[0]))
	content, err := b.content(binary, program)
	if err != nil {
		return nil, err
	}
	return layer.Image(base, arch, func(c *v1.Config) { b.configure(c, program) }, baseFiles, content)
}

func (b *build) configure(c *v1.Config, program string) {
	c.User, c.Entrypoint, c.Cmd, c.WorkingDir = b.user, b.entrypoint, b.command, "/"
	if len(b.entrypoint) == 0 {
		c.Entrypoint = []string{program}
	}
	c.Env = append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, b.env...)
	c.Labels = map[string]string{}
	for _, label := range b.labels {
		key, value, _ := strings.Cut(label, "=")
		c.Labels[key] = value
	}
}

func (b *build) content(binary, program string) (layer.Set, error) {
	content := layer.Set{}
	add := func(source, target string, mode int64) error {
		file, err := layer.File(target, source, mode)
		content.Add(file)
		return err
	}
	if err := add(binary, program, 0o755); err != nil {
		return nil, err
	}
	for _, pair := range b.files {
		source, target, ok := strings.Cut(pair, ":")
		if !ok {
			return nil, fmt.Errorf("--file %s: want SOURCE:TARGET", pair)
		}
		mode := int64(0o644)
		if info, err := os.Stat(source); err == nil && info.Mode()&0o111 != 0 {
			mode = 0o755
		}
		if err := add(source, target, mode); err != nil {
			return nil, err
		}
	}
	for _, pair := range b.dirs {
		source, target, ok := strings.Cut(pair, ":")
		if !ok {
			return nil, fmt.Errorf("--dir %s: want SOURCE:TARGET", pair)
		}
		if err := content.AddTree(source, target, layer.RootOwner, nil); err != nil {
			return nil, fmt.Errorf("--dir %s: %w", pair, err)
		}
	}
	return content, nil
}

// architecture returns the architecture of an ELF binary. It rejects dynamically linked binaries, because the base has no dynamic
// linker.
func architecture(binary string) (string, error) {
	program, err := elf.Open(binary)
	if format := (*elf.FormatError)(nil); errors.As(err, &format) {
		return "", fmt.Errorf("--binary %s: not an ELF binary: %w", binary, err)
	}
	if err != nil {
		return "", fmt.Errorf("--binary: %w", err)
	}
	if err := program.Close(); err != nil { // the headers are already read
		return "", fmt.Errorf("--binary: %w", err)
	}
	for _, segment := range program.Progs {
		if segment.Type == elf.PT_INTERP {
			return "", fmt.Errorf("--binary %s: dynamically linked: build with CGO_ENABLED=0", binary)
		}
	}
	switch program.Machine {
	case elf.EM_X86_64:
		return "amd64", nil
	case elf.EM_AARCH64:
		return "arm64", nil
	default:
		return "", fmt.Errorf("--binary %s: unsupported architecture %s: want amd64 or arm64", binary, program.Machine)
	}
}

// staticBase returns the files of the static base: users, groups, nsswitch.conf, /tmp, home directories and CA certificates.
func staticBase(caBundle string) (layer.Set, error) {
	const users = "root:x:0:0:root:/root:/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n" +
		"nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n"
	const groups = "root:x:0:\nnobody:x:65534:\nnonroot:x:65532:\n"
	home := layer.Dir("/home/nonroot", 0o700)
	home.UID, home.GID = 65532, 65532
	base := layer.Set{}
	base.Add(
		layer.Text("/etc/passwd", users, 0o644),
		layer.Text("/etc/group", groups, 0o644),
		layer.Text("/etc/nsswitch.conf", "hosts: files dns\n", 0o644),
		layer.Dir("/tmp", 0o1777),
		layer.Dir("/root", 0o700),
		home,
	)
	if caBundle == "" {
		return base, nil
	}
	bundle, err := layer.File("/etc/ssl/certs/ca-certificates.crt", caBundle, 0o644)
	if err != nil {
		return nil, fmt.Errorf("%w (install ca-certificates, or pass --ca-certificates= for an image without CA certificates)", err)
	}
	base.Add(bundle)
	return base, nil
}
