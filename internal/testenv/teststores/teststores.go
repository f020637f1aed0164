// Package teststores runs object stores for tests: versitygw (S3), fake-gcs-server (Google Cloud Storage) and azurite (Azure Blob Storage).
package teststores

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/backup/store"
)

// Bucket is the one that exists in each of the stores.
const Bucket = "backups"

// The account of azurite, which its documentation publishes, and keys for versitygw.
const (
	azureAccount = "devstoreaccount1"
	azureKey     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
	s3Access     = "test-access-key"
	s3Secret     = "test-secret-key"
)

const startTimeout = 60 * time.Second

// Server is an object store on this machine, with the bucket Bucket. It serves HTTPS with a certificate that Keys.CA signs.
type Server struct {
	Type        backupv1alpha1.StoreType
	Destination backupv1alpha1.Destination
	Keys        store.Keys
	// Dir has the store's files; their form is the store's own.
	Dir string

	certificate tls.Certificate
	// restart starts the store again with this key; s3 only.
	restart func(t testing.TB, secret string)
}

// Start starts the stores, which end with the test: those of the types, or all.
func Start(t testing.TB, types ...backupv1alpha1.StoreType) []Server {
	t.Helper()
	if len(types) == 0 {
		types = []backupv1alpha1.StoreType{backupv1alpha1.StoreS3, backupv1alpha1.StoreGCS, backupv1alpha1.StoreAzure}
	}
	servers := make([]Server, len(types))
	for i, kind := range types {
		servers[i] = launch(t, kind)
	}
	for _, server := range servers { // they start at the same time
		server.await(t)
	}
	return servers
}

func launch(t testing.TB, kind backupv1alpha1.StoreType) Server {
	t.Helper()
	cert, key := certificate(t)
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	config, port := t.TempDir(), freePort(t)
	s := Server{Type: kind, Dir: t.TempDir(), certificate: pair, Keys: store.Keys{CA: cert}}
	certFile, keyFile := filepath.Join(config, "tls.crt"), filepath.Join(config, "tls.key")
	for file, content := range map[string][]byte{certFile: cert, keyFile: key} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	address := "127.0.0.1:" + port
	s.Destination = backupv1alpha1.Destination{
		Type: kind, Bucket: Bucket, Endpoint: "https://" + address, CredentialsSecretRef: &fettlev1.LocalReference{Name: "store"},
	}
	switch kind {
	case backupv1alpha1.StoreS3:
		s.Keys.Files = map[string][]byte{"access-key-id": []byte(s3Access), "secret-access-key": []byte(s3Secret)}
		if err := os.Mkdir(filepath.Join(s.Dir, Bucket), 0o700); err != nil {
			t.Fatal(err)
		}
		stop, metadata := func() {}, t.TempDir()
		s.restart = func(t testing.TB, secret string) {
			stop()
			stop = run(t, []string{"ROOT_ACCESS_KEY=" + s3Access, "ROOT_SECRET_KEY=" + secret}, "versitygw", "--port", address, "--cert", certFile, "--key", keyFile,
				"--quiet", "posix", "--sidecar", metadata, s.Dir)
		}
		s.restart(t, s3Secret)
	case backupv1alpha1.StoreGCS:
		s.Keys.Files = map[string][]byte{"service-account.json": serviceAccount(t, s.tokens(t))}
		if err := os.Mkdir(filepath.Join(s.Dir, Bucket), 0o700); err != nil {
			t.Fatal(err)
		}
		run(t, nil, "fake-gcs-server", "-scheme", "https", "-host", "127.0.0.1", "-port", port, "-backend", "filesystem", "-filesystem-root", s.Dir,
			"-cert-location", certFile, "-private-key-location", keyFile, "-external-url", s.Destination.Endpoint, "-log-level", "error")
	default:
		s.Keys.Files = map[string][]byte{"account-name": []byte(azureAccount), "account-key": []byte(azureKey)}
		run(t, nil, "azurite-blob", "--blobHost", "127.0.0.1", "--blobPort", port, "--location", s.Dir, "--cert", certFile, "--key", keyFile,
			"--oauth", "basic", "--silent", "--skipApiVersionCheck", "--disableTelemetry")
		s.Destination.Endpoint += "/" + azureAccount
	}
	return s
}

// Rekey revokes the key of an s3 store and gives it a new one.
func (s *Server) Rekey(t testing.TB) {
	t.Helper()
	const secret = "new-secret-key"
	s.restart(t, secret)
	s.Keys.Files = map[string][]byte{"access-key-id": []byte(s3Access), "secret-access-key": []byte(secret)}
	s.await(t)
}

// tokens serves the tokens of Google's service accounts.
func (s *Server) tokens(t testing.TB) string {
	return s.serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"test-token","token_type":"Bearer","expires_in":3600}`)
	}))
}

// serve serves HTTPS with the store's certificate.
func (s *Server) serve(t testing.TB, handler http.Handler) string {
	server := httptest.NewUnstartedServer(handler)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{s.certificate}, MinVersion: tls.VersionTLS12}
	server.Config.ErrorLog = nil
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

// Through returns the store behind a server that passes requests through a handler, which may fail or change them.
func (s Server) Through(t testing.TB, handler func(next http.Handler) http.Handler) Server {
	t.Helper()
	target, err := url.Parse(s.Destination.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.ReverseProxy{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, //nolint:gosec // a store of this test
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
			if s.Type == backupv1alpha1.StoreS3 {
				r.Out.Host = r.In.Host // it is signed
			}
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	var front string
	proxy.ModifyResponse = func(r *http.Response) error { // of Google's uploads
		if location := r.Header.Get("Location"); location != "" {
			r.Header.Set("Location", strings.Replace(location, target.Scheme+"://"+target.Host, front, 1))
		}
		return nil
	}
	front = s.serve(t, handler(&proxy))
	s.Destination.Endpoint = front + target.Path
	return s
}

// Open opens the folder "<namespace>/<backup>" of the store.
func (s Server) Open(t testing.TB, folder string, options ...store.Option) *store.Store {
	t.Helper()
	opened, err := store.Open(t.Context(), s.Destination, s.Keys, folder, append(options, store.PermitLoopback())...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = opened.Close() })
	return opened
}

// await returns when the store answers, with its bucket.
func (s Server) await(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	address, err := url.Parse(s.Destination.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	for {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address.Host)
		if err == nil {
			_ = c.Close()
			break
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the %s store did not start within %s: %v", s.Type, startTimeout, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
	if s.Type == backupv1alpha1.StoreAzure {
		s.createContainer(ctx, t)
	}
}

func (s Server) createContainer(ctx context.Context, t testing.TB) {
	t.Helper()
	signer, err := blob.NewSharedKeyCredential(azureAccount, azureKey)
	if err != nil {
		t.Fatal(err)
	}
	trusting := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // a store of this test
	options := &container.ClientOptions{ClientOptions: policy.ClientOptions{Transport: trusting}}
	client, err := container.NewClientWithSharedKeyCredential(s.Destination.Endpoint+"/"+Bucket, signer, options)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Create(ctx, nil); err != nil {
		t.Fatalf("create container: %v", err)
	}
	trusting.CloseIdleConnections()
}

// run starts a program that ends with the test, or when it is stopped. Its output is shown if the test fails.
func run(t testing.TB, environment []string, name string, arguments ...string) (stop func()) {
	t.Helper()
	output := &strings.Builder{}
	cmd := exec.Command(find(t, name), arguments...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = output, output, time.Second
	cmd.Env = append(os.Environ(), environment...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started, ended := make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // Pdeathsig fires when the thread that started the program ends
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // it is killed
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	stop = func() {
		_ = cmd.Process.Kill()
		<-ended
	}
	t.Cleanup(func() {
		stop()
		if t.Failed() && output.Len() > 0 {
			t.Logf("output of %s:\n%s", name, output)
		}
	})
	return stop
}

// find returns the path of a program in one of the folders of FETTLE_STORES.
func find(t testing.TB, name string) string {
	t.Helper()
	for _, dir := range filepath.SplitList(os.Getenv("FETTLE_STORES")) {
		if path := filepath.Join(dir, name); exists(path) {
			return path
		}
	}
	t.Fatalf("%s is not in the folders of FETTLE_STORES: run export FETTLE_STORES=$(hack/tools/bin stores):$(hack/azurite.sh)", name)
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// ports are those that freePort has returned.
var ports struct {
	sync.Mutex
	used []string
}

// freePort returns a port that is free now, and not yet used by another store of this process.
func freePort(t testing.TB) string {
	t.Helper()
	ports.Lock()
	defer ports.Unlock()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
		_ = l.Close()
		if !slices.Contains(ports.used, port) {
			ports.used = append(ports.used, port)
			return port
		}
	}
}
