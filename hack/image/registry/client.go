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

// Client pushes to and pulls from a registry that mirrors others: an image keeps its name, without the host.
type Client struct {
	host      string
	transport http.RoundTripper
}

// NewClient talks to the registry at host (name:port) over TLS and trusts the certificates in caFile, or those of the system if
// it is empty. No proxy is used.
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
			return nil, fmt.Errorf("%s holds no certificate in PEM", caFile)
		}
		direct.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &Client{host: host, transport: direct}, nil
}

// Mirrored is the name that an image has in the registry: ghcr.io/fettle-dev/fettle:v1 is stored as HOST/fettle-dev/fettle:v1.
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

// Pull gets an image, lazily.
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

// Push stores an image or an index under each of the names, and says whether anything had to be sent.
func (c *Client) Push(ctx context.Context, image Pushable, names ...string) (bool, error) {
	sent := false
	for _, n := range names {
		ref, err := c.Mirrored(n)
		if err != nil {
			return sent, err
		}
		same, err := c.holds(ctx, ref, image)
		if err != nil {
			return sent, fmt.Errorf("look for %s in the registry at %s: %w", n, c.host, err)
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

func (c *Client) holds(ctx context.Context, ref name.Reference, image Pushable) (bool, error) {
	want, err := image.Digest()
	if err != nil {
		return false, err
	}
	found, err := remote.Head(ref, c.options(ctx)...)
	if refused := (*transport.Error)(nil); errors.As(err, &refused) && refused.StatusCode == http.StatusNotFound {
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
