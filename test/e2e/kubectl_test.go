package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
)

// namespaced runs kubectl commands in one namespace.
type namespaced struct{ name string }

// newNamespace creates a namespace that is deleted with the spec or container.
func newNamespace(ctx context.Context, labels map[string]string) namespaced {
	GinkgoHelper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-", Labels: labels}}
	Expect(k8s.Create(ctx, ns)).To(Succeed())
	inUse = append(inUse, ns.Name)
	DeferCleanup(func(ctx SpecContext) {
		inUse = slices.DeleteFunc(inUse, func(name string) bool { return name == ns.Name })
		Expect(client.IgnoreNotFound(k8s.Delete(ctx, ns))).To(Succeed())
	})
	return namespaced{ns.Name}
}

// inUse are the namespaces of the running specs.
var inUse []string

// try runs kubectl and returns its output, including errors and warnings.
func (n namespaced) try(ctx context.Context, args ...string) (string, error) {
	return n.kubectlStdin(ctx, "", args...)
}

// run is try for commands that must succeed.
func (n namespaced) run(ctx context.Context, args ...string) string {
	GinkgoHelper()
	return n.retry(ctx, "", args...)
}

// apply pipes a manifest into kubectl apply.
func (n namespaced) apply(ctx context.Context, manifest string) string {
	GinkgoHelper()
	return n.retry(ctx, manifest, "apply", "-f", "-")
}

// retry repeats a command while it fails before it changes anything.
func (n namespaced) retry(ctx context.Context, stdin string, args ...string) string {
	GinkgoHelper()
	for end := time.Now().Add(soon); ; {
		output, err := n.kubectlStdin(ctx, stdin, args...)
		if err == nil {
			return output
		}
		if !transientError.MatchString(err.Error()) || time.Now().After(end) {
			Expect(err).NotTo(HaveOccurred())
		}
		pauseFor(ctx, time.Second)
	}
}

// transientError matches errors of requests that had no effect and may succeed soon. For example, a Service still routes to a deleted pod
// of the operator, or one of OLM's APIs is restarting.
var transientError = regexp.MustCompile(`failed calling webhook|the server is currently unable to handle the request|` +
	`unable to retrieve the complete list of server APIs|TLS handshake timeout|too many requests`)

// klogLine matches the log lines of kubectl's libraries.
var klogLine = regexp.MustCompile(`(?m)^[IWE]\d{4} \d\d:\d\d:\d\d\.\d+ .*\n?`)

// kubectlStdin is try with standard input.
func (n namespaced) kubectlStdin(ctx context.Context, stdin string, args ...string) (string, error) {
	output, err := n.kubectl(ctx, stdin, args...)
	fmt.Fprintf(GinkgoWriter, "$ kubectl %s\n%s", strings.Join(args, " "), output)
	return output, err
}

// quietly is try without output in the report.
func (n namespaced) quietly(ctx context.Context, args ...string) (string, error) {
	return n.kubectl(ctx, "", args...)
}

func (n namespaced) kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	if n.name != "" {
		args = append([]string{"--namespace=" + n.name}, args...)
	}
	command := exec.CommandContext(ctx, kubectlPath, args...)
	command.Stdin = strings.NewReader(stdin)
	output, err := command.CombinedOutput()
	output = klogLine.ReplaceAll(output, nil)
	if err != nil {
		return string(output), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, output)
	}
	return string(output), nil
}

// rejection returns kubectl's error for a rejected command.
func (n namespaced) rejection(stdin string, args ...string) func(context.Context) string {
	return func(ctx context.Context) string {
		if _, err := n.kubectlStdin(ctx, stdin, args...); err != nil {
			return err.Error()
		}
		return "admitted"
	}
}

// webApp applies a WebApp; spec is the content of "spec:" as YAML in one line.
func (n namespaced) webApp(ctx context.Context, name, spec string) string {
	GinkgoHelper()
	return n.apply(ctx, webAppManifest(name, spec))
}

func webAppManifest(name, spec string) string {
	return fmt.Sprintf("apiVersion: apps.fettle.dev/v1\nkind: WebApp\nmetadata: {name: %s}\nspec: %s\n", name, spec)
}

// ready waits until the WebApp is Ready at its current generation.
func (n namespaced) ready(ctx context.Context, name string) {
	GinkgoHelper()
	Eventually(ctx, n.condition(name, fettlev1.Ready)).WithTimeout(2*later).Should(HavePrefix("True "), "WebApp %s", name)
}

// condition returns a condition of a WebApp as "Status Reason: Message"; "outdated" for one of an older generation.
func (n namespaced) condition(name, kind string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		app := &appsv1.WebApp{}
		if err := k8s.Get(ctx, client.ObjectKey{Namespace: n.name, Name: name}, app); err != nil {
			return "", err
		}
		c := meta.FindStatusCondition(app.Status.Conditions, kind)
		if c == nil || c.ObservedGeneration != app.Generation {
			return "outdated", nil
		}
		return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message), nil
	}
}

// page fetches / through a Service, such as a WebApp's.
func (n namespaced) page(ctx context.Context, name string) (string, error) {
	url, stop, err := n.reach(ctx, name)
	if err != nil {
		return "", err
	}
	defer stop()
	status, body, err := fetch(ctx, http.DefaultClient, url, "")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s: status %d: %s", url, status, body)
	}
	return body, err
}

// serves waits until the page contains a text: Endpoints and kube-proxy are later than the pods.
func (n namespaced) serves(ctx context.Context, name, text string) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) (string, error) { return n.page(ctx, name) }).WithTimeout(soon).Should(ContainSubstring(text))
}

// shows waits until kubectl's output matches. Different controllers report a change at different times.
func (n namespaced) shows(ctx context.Context, matcher OmegaMatcher, args ...string) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) (string, error) { return n.try(ctx, args...) }).WithTimeout(soon).Should(matcher)
}

// reach returns the address of a Service's page until stop is called.
func (n namespaced) reach(ctx context.Context, service string) (url string, stop func(), err error) {
	if local {
		address, err := n.try(ctx, "get", "service", service, "-o", "jsonpath={.spec.clusterIP}:{.spec.ports[0].port}")
		return "http://" + address + "/", func() {}, err
	}
	port, stop, err := n.forward(ctx, "service/"+service, "80")
	return "http://127.0.0.1:" + port + "/", stop, err
}

// fetch gets a page, with a bearer token unless it is empty.
func fetch(ctx context.Context, c *http.Client, url, token string) (status int, body string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := c.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close() // only read
	data, err := io.ReadAll(response.Body)
	return response.StatusCode, string(data), err
}

// forward forwards a port of this machine, which it returns, to a port of an object.
func (n namespaced) forward(ctx context.Context, object, port string) (string, func(), error) {
	ctx, cancel := context.WithCancel(ctx)
	command := exec.CommandContext(ctx, kubectlPath, "--namespace="+n.name, "port-forward", object, ":"+port)
	var problem bytes.Buffer
	command.Stderr = &problem
	stdout, err := command.StdoutPipe()
	if err != nil {
		cancel()
		return "", nil, err
	}
	if err := command.Start(); err != nil {
		cancel()
		return "", nil, err
	}
	stop := func() { cancel(); _ = command.Wait() } // it is stopped by a signal
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		fmt.Fprintln(GinkgoWriter, lines.Text())
		if _, after, ok := strings.Cut(lines.Text(), "127.0.0.1:"); ok {
			bound, _, _ := strings.Cut(after, " ")
			go func() { _, _ = io.Copy(io.Discard, stdout) }() // it prints this for each connection
			return bound, stop, nil
		}
	}
	stop()
	return "", nil, fmt.Errorf("port-forward to %s: %s", object, problem.String())
}
