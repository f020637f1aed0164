package cmd

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-dev/fettle/internal/testenv"
)

const (
	// asManager makes the test binary the manager, so tests can run several and stop them with signals.
	asManager   = "FETTLE_TEST_AS_MANAGER"
	loopback    = "127.0.0.1"
	waitTimeout = 30 * time.Second
)

var env *testenv.Env

func TestMain(m *testing.M) {
	if os.Getenv(asManager) != "" {
		command := (&managerOptions{webhookHost: loopback}).command()
		if err := command.ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// These managers would reconcile the objects of other tests.
	testenv.Main(m, &env, testenv.Options{Fast: true, Private: true})
}

// process is a manager in its own process.
type process struct {
	*exec.Cmd
	health  string // address
	metrics string // address
	log     *buffer
	ended   chan struct{}
	err     error // once ended is closed
}

type buffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}

// startManager runs the manager as the operator, and shows its log if the test fails.
func startManager(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{health: freeAddress(t), metrics: freeAddress(t), log: &buffer{}, ended: make(chan struct{})}
	args = append([]string{
		"--kubeconfig=" + kubeconfig(t, env.Operator), "--health-probe-bind-address=" + p.health, "--metrics-bind-address=" + p.metrics,
	}, args...)
	p.Cmd = exec.Command(os.Args[0], args...)
	p.Env = append(os.Environ(), asManager+"=1")
	if os.Getenv("POD_NAMESPACE") == "" {
		p.Env = append(p.Env, "POD_NAMESPACE="+testenv.OperatorNamespace)
	}
	p.Stdout, p.Stderr = p.log, p.log
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.Process.Kill() // an error means that it has exited already
		<-p.ended
		if t.Failed() {
			t.Logf("log of the manager %q:\n%s", args, p.log)
		}
	})
	return p
}

// stop sends SIGTERM and returns how long the manager took to exit without an error.
func (p *process) stop(t *testing.T) time.Duration {
	t.Helper()
	start := time.Now()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.ended:
		if p.err != nil {
			t.Errorf("the manager exited with %v", p.err)
		}
	case <-time.After(waitTimeout):
		t.Fatalf("the manager did not exit %s after SIGTERM", waitTimeout)
	}
	return time.Since(start)
}

func (p *process) waitReady(t *testing.T) {
	t.Helper()
	eventually(t, "the manager is ready", func() error { return get(t, "http://"+p.health+"/readyz", "", http.StatusOK) })
}

// get fetches a page with a bearer token, if any, and returns an error if the response differs from the wanted one.
func get(t *testing.T, url, token string, want int, contains ...string) error {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != want {
		return fmt.Errorf("%s: %s, want %d: %s", url, response.Status, want, body)
	}
	for _, text := range contains {
		if !bytes.Contains(body, []byte(text)) {
			return fmt.Errorf("%s does not contain %q", url, text)
		}
	}
	return nil
}

func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(waitTimeout); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	t.Fatalf("%s: not after %s: %v", what, waitTimeout, err)
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func portOf(t *testing.T, address string) int {
	t.Helper()
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func kubeconfig(t *testing.T, config *rest.Config) string {
	t.Helper()
	file := clientcmdapi.NewConfig()
	file.Clusters["test"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos["test"] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	file.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	file.CurrentContext = "test"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func newAdmin(t *testing.T) client.WithWatch {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.NewWithWatch(env.Admin, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// install applies the objects of a file below config/.
func install(t *testing.T, c client.Client, path ...string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{"..", "..", "config"}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		err := c.Apply(context.WithoutCancel(t.Context()), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("fettle-install"))
		if err != nil {
			t.Fatal(err)
		}
	}
}

func emptySecret(namespace, name string) *corev1.Secret {
	s := &corev1.Secret{}
	s.Namespace, s.Name = namespace, name
	return s
}
