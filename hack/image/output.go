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

// output says where an image goes; several places may be given.
type output struct {
	names  []string
	push   string
	ca     string
	output string
	index  bool // an index even of one image
}

func (o *output) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&o.names, "name", nil, "the image's full name (again for another name of the same image)")
	flags.StringVar(&o.push, "push", "", "push to the registry at this address, under the name without its host")
	flags.StringVar(&o.ca, "ca", "", "file of the CA that the registry's certificate is checked with (the system's by default)")
	flags.StringVar(&o.output, "output", "", "write to a file or folder: tar=FILE (as of docker save) or oci=FOLDER (OCI layout)")
	require(cmd, "name")
}

// write stores one image, or an index if there are several or one is wanted, and prints the digest.
func (o *output) write(cmd *cobra.Command, images ...v1.Image) error {
	if o.push == "" && o.output == "" {
		return fmt.Errorf("nowhere to put the image: give --push REGISTRY or --output tar=FILE or oci=FOLDER")
	}
	var what registry.Pushable = images[0]
	if len(images) > 1 || o.index {
		index, err := multiArch(images)
		if err != nil {
			return err
		}
		what = index
	}
	if err := o.pushTo(cmd.Context(), what); err != nil {
		return err
	}
	if err := o.save(what, images[0]); err != nil {
		return fmt.Errorf("write --output %s: %w", o.output, err)
	}
	digest, err := what.Digest()
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

func (o *output) pushTo(ctx context.Context, what registry.Pushable) error {
	if o.push == "" {
		return nil
	}
	client, err := registry.NewClient(o.push, o.ca)
	if err != nil {
		return err
	}
	_, err = client.Push(ctx, what, o.names...)
	return err
}

func (o *output) save(what registry.Pushable, first v1.Image) error {
	kind, target, _ := strings.Cut(o.output, "=")
	switch {
	case o.output == "":
		return nil
	case kind == "tar" && target != "": // the format has no indexes: the first architecture
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
		return saveLayout(target, o.names[0], what)
	default:
		return fmt.Errorf("it is neither tar=FILE nor oci=FOLDER")
	}
}

func saveLayout(folder, ref string, what registry.Pushable) error {
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	named := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": ref})
	if index, ok := what.(v1.ImageIndex); ok {
		return path.AppendIndex(index, named)
	}
	return path.AppendImage(what.(v1.Image), named)
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
