package cluster

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// redirect sends the requests for all hosts to one server.
type redirect struct {
	to *url.URL
}

func (r redirect) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.URL.Scheme, request.URL.Host = r.to.Scheme, r.to.Host
	return http.DefaultTransport.RoundTrip(request)
}

func TestLoadImage_tar(t *testing.T) {
	server := httptest.NewServer(registry.New())
	t.Cleanup(server.Close)
	to, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	image, err := random.Image(100, 2)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := tarball.WriteToFile(file, name.MustParseReference("ghcr.io/fettle-dev/fettle:v1"), image); err != nil {
		t.Fatal(err)
	}
	push := []remote.Option{remote.WithContext(t.Context()), remote.WithTransport(redirect{to})}
	names, err := loadImage(t.Context(), file, push)
	if err != nil {
		t.Fatal(err)
	}
	stored := registryAddr + "/fettle-dev/fettle:v1"
	if diff := cmp.Diff([]string{stored}, names); diff != "" {
		t.Error(diff)
	}
	got, err := remote.Image(name.MustParseReference("172.30.0.1:5000/fettle-dev/fettle:v1"), push...)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := image.ConfigName()
	if have, err := got.ConfigName(); err != nil || have != want {
		t.Errorf("the registry has %v (error %v), want %v", have, err, want)
	}
}

func TestLoadImage_rejectsInvalidReference(t *testing.T) {
	if names, err := loadImage(t.Context(), "/no/such file", nil); err == nil {
		t.Errorf("got %v", names)
	}
}

func TestIsDataCorrupt(t *testing.T) {
	for log, want := range map[string]bool{
		`"error":"walpb: crc mismatch"`:                           true,
		"listen tcp 127.0.0.1:2379: bind: address already in use": false,
		"write /var/lib/etcd/member/wal: no space left on device": false,
		"panic: freepages: failed to get all reachable pages":     true,
	} {
		if got := isDataCorrupt(log); got != want {
			t.Errorf("%s: got %v", log, got)
		}
	}
}
