package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Client pushes to and pulls from a registry that mirrors other registries: the repository of an image is its name without the host.
type Client struct {
	host      string
	transport http.RoundTripper
}

// NewClient returns a client of the registry at host (name:port). It uses TLS with the CAs in caFile, or the system's CAs if caFile is
// empty. It does not use a proxy.
func NewClient(host, caFile string) (*Client, error) {
	direct := http.DefaultTransport.(*http.Transport).Clone()
	direct.Proxy = nil
	if caFile != "" {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("read the registry's CA: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no PEM certificate", caFile)
		}
		direct.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &Client{host: host, transport: direct}, nil
}

// Mirrored returns the name of an image in the registry: ghcr.io/fettle-dev/fettle:v1 becomes HOST/fettle-dev/fettle:v1.
func (c *Client) Mirrored(image string) (name.Reference, error) {
	original, err := name.ParseReference(image)
	if err != nil {
		return nil, fmt.Errorf("image name: %w", err)
	}
	host, err := name.NewRegistry(c.host)
	if err != nil {
		return nil, fmt.Errorf("registry address: %w", err)
	}
	repository := host.Repo(original.Context().RepositoryStr())
	if digest, ok := original.(name.Digest); ok {
		return repository.Digest(digest.DigestStr()), nil
	}
	return repository.Tag(original.Identifier()), nil
}

// Pull returns an image. Its layers are pulled lazily.
func (c *Client) Pull(ctx context.Context, image string) (v1.Image, error) {
	ref, err := c.Mirrored(image)
	if err != nil {
		return nil, err
	}
	found, err := remote.Image(ref, c.options(ctx)...)
	if err != nil {
		return nil, fmt.Errorf("pull %s from the registry at %s: %w", image, c.host, err)
	}
	return found, nil
}

// Pushable is an image or an index.
type Pushable interface {
	remote.Taggable
	Digest() (v1.Hash, error)
}

// Push pushes an image or an index under each of the names, and reports whether it pushed anything.
func (c *Client) Push(ctx context.Context, image Pushable, names ...string) (bool, error) {
	sent := false
	for _, n := range names {
		ref, err := c.Mirrored(n)
		if err != nil {
			return sent, err
		}
		same, err := c.has(ctx, ref, image)
		if err != nil {
			return sent, fmt.Errorf("check %s in the registry at %s: %w", n, c.host, err)
		}
		if same {
			continue
		}
		if err := remote.Push(ref, image, c.options(ctx)...); err != nil {
			return sent, fmt.Errorf("push %s to the registry at %s: %w", n, c.host, err)
		}
		sent = true
	}
	return sent, nil
}

func (c *Client) has(ctx context.Context, ref name.Reference, image Pushable) (bool, error) {
	want, err := image.Digest()
	if err != nil {
		return false, err
	}
	found, err := remote.Head(ref, c.options(ctx)...)
	if httpErr := (*transport.Error)(nil); errors.As(err, &httpErr) && httpErr.StatusCode == http.StatusNotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return found.Digest == want, nil
}

func (c *Client) options(ctx context.Context) []remote.Option {
	return []remote.Option{remote.WithContext(ctx), remote.WithTransport(c.transport)}
}
