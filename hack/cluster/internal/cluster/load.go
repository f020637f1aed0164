package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// LoadImages pushes images to the cluster's registry under the names that manifests use. An image is a tar file of
// `docker save`, or a reference, which is copied from its registry.
func (c Config) LoadImages(ctx context.Context, images []string, out io.Writer) error {
	push, err := c.registryOptions(ctx)
	if err != nil {
		return err
	}
	for _, image := range images {
		names, err := loadImage(ctx, image, push)
		if err != nil {
			return fmt.Errorf("load %s: %w", image, err)
		}
		if _, err := fmt.Fprintf(out, "pushed %s as %s\n", image, strings.Join(names, ", ")); err != nil {
			return err
		}
	}
	return nil
}

// registryOptions returns client options for the cluster's registry. They trust the cluster's CA.
func (c Config) registryOptions(ctx context.Context) ([]remote.Option, error) {
	ca, err := os.ReadFile(c.Path("pki", "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("read the cluster's CA (is it up?): %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, errors.New("the cluster's CA file has no valid certificate: run up")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: pool}
	return []remote.Option{remote.WithContext(ctx), remote.WithTransport(transport)}, nil
}

func loadImage(ctx context.Context, image string, push []remote.Option) ([]string, error) {
	if _, err := os.Stat(image); err == nil {
		return loadTar(image, push)
	}
	ref, err := name.ParseReference(image)
	if err != nil {
		return nil, fmt.Errorf("neither a file nor an image name: %w", err)
	}
	descriptor, err := remote.Get(ref, remote.WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("pull it from its registry: %w", err)
	}
	to, err := mirrored(ref)
	if err != nil {
		return nil, err
	}
	if descriptor.MediaType.IsIndex() {
		index, err := descriptor.ImageIndex()
		if err != nil {
			return nil, err
		}
		return []string{to.String()}, remote.WriteIndex(to, index, push...)
	}
	img, err := descriptor.Image()
	if err != nil {
		return nil, err
	}
	return []string{to.String()}, remote.Write(to, img, push...)
}

// loadTar pushes every tagged image of a tar file.
func loadTar(file string, push []remote.Option) ([]string, error) {
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(file) })
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range manifest {
		for _, text := range entry.RepoTags {
			tag, err := name.NewTag(text)
			if err != nil {
				return nil, err
			}
			var img v1.Image
			if img, err = tarball.ImageFromPath(file, &tag); err != nil {
				return nil, err
			}
			to, err := mirrored(tag)
			if err != nil {
				return nil, err
			}
			if err := remote.Write(to, img, push...); err != nil {
				return nil, err
			}
			names = append(names, to.String())
		}
	}
	if len(names) == 0 {
		return nil, errors.New("the file has no tagged image (use docker save NAME:TAG)")
	}
	return names, nil
}

// mirrored returns the name of an image in the cluster's registry, where containerd's mirror configuration finds it.
func mirrored(ref name.Reference) (name.Reference, error) {
	separator := ":"
	if _, ok := ref.(name.Digest); ok {
		separator = "@"
	}
	return name.ParseReference(registryAddr + "/" + ref.Context().RepositoryStr() + separator + ref.Identifier())
}
