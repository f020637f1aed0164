package main

import (
	"bytes"
	"context"
	"fmt"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"

	"github.com/fettle-dev/fettle/hack/image/dockerfile"
	"github.com/fettle-dev/fettle/hack/image/registry"
)

func dockerfileCommand() *cobra.Command {
	var out output
	var file, opm string
	builder := &dockerfile.Builder{}
	cmd := &cobra.Command{
		Use:   "dockerfile",
		Short: "Build an image of data from a Dockerfile: a bundle, a catalog",
		Long: "Build an image from a Dockerfile that only copies files and sets the configuration, such as bundle.Dockerfile. RUN is refused,\n" +
			"but for the line of a catalog's Dockerfile that makes opm's cache, which is run with the opm of this machine. Base images\n" +
			"are taken from the registry of --push.",
		Example: "  image dockerfile -f bundle.Dockerfile --context . --name ghcr.io/fettle-dev/fettle-bundle:v0.0.1 --push 172.30.0.1:5000 --ca ca.crt",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			stages, err := dockerfile.Parse(bytes.NewReader(text))
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			builder.Opm = opm
			builder.Pull = func(ctx context.Context, name string) (v1.Image, error) { return pullBase(ctx, &out, name) }
			image, err := builder.Build(cmd.Context(), stages)
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			return out.write(cmd, image)
		},
	}
	flags := cmd.Flags()
	out.flags(cmd)
	flags.StringVarP(&file, "file", "f", "Dockerfile", "the Dockerfile")
	flags.StringVar(&builder.Context, "context", ".", "folder that COPY and ADD read from")
	flags.StringVar(&builder.Arch, "arch", "amd64", "architecture of the image")
	flags.StringVar(&opm, "opm", "opm", "the opm that makes a catalog's cache, of the version that will serve it")
	return cmd
}

func pullBase(ctx context.Context, out *output, base string) (v1.Image, error) {
	if out.push == "" {
		return nil, fmt.Errorf("FROM %s: base images are taken from the registry of --push", base)
	}
	client, err := registry.NewClient(out.push, out.ca)
	if err != nil {
		return nil, err
	}
	return client.Pull(ctx, base)
}
