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
		Short: "Build a bundle or catalog image from its Dockerfile",
		Long: "Build an image from a Dockerfile that only copies files and sets the image configuration, such as bundle.Dockerfile. RUN is\n" +
			"not supported, except for opm's cache command in a catalog's Dockerfile, which runs on the host. Base images are pulled from\n" +
			"the registry of --push.",
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
	flags.StringVarP(&file, "file", "f", "Dockerfile", "path of the Dockerfile")
	flags.StringVar(&builder.Context, "context", ".", "build context: the directory that COPY and ADD read from")
	flags.StringVar(&builder.Arch, "arch", "amd64", "architecture of the image")
	flags.StringVar(&opm, "opm", "opm", "opm binary that builds a catalog's cache; must have the version of the catalog's base image")
	return cmd
}

func pullBase(ctx context.Context, out *output, base string) (v1.Image, error) {
	if out.push == "" {
		return nil, fmt.Errorf("FROM %s: base images need --push, the registry to pull from", base)
	}
	client, err := registry.NewClient(out.push, out.ca)
	if err != nil {
		return nil, err
	}
	return client.Pull(ctx, base)
}
