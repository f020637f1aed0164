package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/spf13/cobra"

	"github.com/fettle-dev/fettle/hack/image/registry"
)

// output holds the destinations of an image; several can be set.
type output struct {
	names  []string
	push   string
	ca     string
	output string
	index  bool // create an index even for one image
}

func (o *output) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&o.names, "name", nil, "full name of the image (repeat for more names)")
	flags.StringVar(&o.push, "push", "", "push to the registry at this address, under the image name without its host")
	flags.StringVar(&o.ca, "ca", "", "CA file for the registry's certificate (default: the system's CAs)")
	flags.StringVar(&o.output, "output", "", "write to tar=FILE (docker save format) or oci=DIR (OCI layout)")
	require(cmd, "name")
}

// write stores an image, or an index for several images or with --index, and prints the digest.
func (o *output) write(cmd *cobra.Command, images ...v1.Image) error {
	if o.push == "" && o.output == "" {
		return fmt.Errorf("no destination: pass --push REGISTRY, --output tar=FILE or --output oci=DIR")
	}
	var artifact registry.Pushable = images[0]
	if len(images) > 1 || o.index {
		index, err := multiArch(images)
		if err != nil {
			return err
		}
		artifact = index
	}
	if err := o.pushTo(cmd.Context(), artifact); err != nil {
		return err
	}
	if err := o.save(artifact, images[0]); err != nil {
		return fmt.Errorf("write --output %s: %w", o.output, err)
	}
	digest, err := artifact.Digest()
	if err != nil {
		return err
	}
	for _, n := range o.names {
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s@%s\n", n, digest); err != nil {
			return err
		}
	}
	return nil
}

func (o *output) pushTo(ctx context.Context, artifact registry.Pushable) error {
	if o.push == "" {
		return nil
	}
	client, err := registry.NewClient(o.push, o.ca)
	if err != nil {
		return err
	}
	_, err = client.Push(ctx, artifact, o.names...)
	return err
}

func (o *output) save(artifact registry.Pushable, first v1.Image) error {
	kind, target, _ := strings.Cut(o.output, "=")
	switch {
	case o.output == "":
		return nil
	case kind == "tar" && target != "": // the format does not support indexes: write the first architecture
		tags := map[name.Reference]v1.Image{}
		for _, n := range o.names {
			ref, err := name.ParseReference(n)
			if err != nil {
				return err
			}
			tags[ref] = first
		}
		return tarball.MultiRefWriteToFile(target, tags)
	case kind == "oci" && target != "":
		return saveLayout(target, o.names[0], artifact)
	default:
		return fmt.Errorf("want tar=FILE or oci=DIR")
	}
}

func saveLayout(dir, ref string, artifact registry.Pushable) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	named := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": ref})
	if index, ok := artifact.(v1.ImageIndex); ok {
		return path.AppendIndex(index, named)
	}
	return path.AppendImage(artifact.(v1.Image), named)
}

func multiArch(images []v1.Image) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.DockerManifestList)
	for _, image := range images {
		file, err := image.ConfigFile()
		if err != nil {
			return nil, err
		}
		platform := v1.Platform{OS: file.OS, Architecture: file.Architecture}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &platform}})
	}
	return index, nil
}
