package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// fettleKinds are what the operator writes a status of.
	fettleKinds = "webapps.apps.fettle.dev,appconfigs.config.fettle.dev,voteconfigs.voting.fettle.dev,postgresqls.database.fettle.dev"
	// otherKinds are what tells how these do. Secrets are left out.
	otherKinds = "deployments,replicasets,statefulsets,pods,services,endpointslices,persistentvolumeclaims,leases,poddisruptionbudgets,configmaps,controllerrevisions"
	// The essence of a failure has so many events, lines of the operator's log and lines of each pod's, cut at widest.
	essentialEvents, essentialLines, essentialPodLines, widest = 12, 12, 4, 200
)

// essential are the lines of a log that a reader looks for first: of what went wrong, and of what was decided.
var essential = regexp.MustCompile(`(?i)error|warn|executing step|panic|fatal|decision|promoted|takes connections|configuration loaded|stopping`)

// record keeps what tells why a spec failed, while its objects are still there: a folder for each below E2E_REPORT_DIR/e2e,
// whose file essence.txt is for those who see nothing but the output of CI.
func record(ctx SpecContext) {
	spec, folder := CurrentSpecReport(), os.Getenv("E2E_REPORT_DIR")
	if !spec.Failed() || folder == "" {
		return
	}
	slug := strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(spec.LeafNodeText), "-"), "-")
	r := &recorder{folder: filepath.Join(folder, "e2e", fmt.Sprintf("%d-%.60s", spec.StartTime.Unix(), slug))}
	if err := os.MkdirAll(r.folder, 0o755); err != nil {
		fmt.Fprintln(GinkgoWriter, "no record of the failure:", err)
		return
	}
	r.say("%s\n%s: %s\n", spec.FullText(), spec.Failure.Location, clipped(spec.Failure.Message, 12))
	for _, name := range inUse {
		r.conditions(ctx, namespaced{name})
	}
	r.operator(ctx, spec.StartTime)
	for _, name := range inUse {
		r.namespace(ctx, namespaced{name}, spec.StartTime)
	}
	r.keep("essence.txt", r.essence.String())
	fmt.Fprintf(GinkgoWriter, "the record of the failure is in %s\n", r.folder)
}

// recorder writes one record. What can't be had is said in its place.
type recorder struct {
	folder  string
	essence strings.Builder
}

func (r *recorder) say(format string, args ...any) { fmt.Fprintf(&r.essence, format, args...) }

func (r *recorder) keep(file, text string) {
	if err := os.WriteFile(filepath.Join(r.folder, file), []byte(text), 0o644); err != nil {
		fmt.Fprintln(GinkgoWriter, "the record of the failure:", err)
	}
}

// ask types a command whose output goes to a file, and returns the output.
func (r *recorder) ask(ctx context.Context, n namespaced, file string, args ...string) string {
	output, err := n.quietly(ctx, args...)
	if err != nil {
		output += "\n" + err.Error() + "\n"
	}
	r.keep(file, output)
	return output
}

// conditions keeps what the operator says of the objects of a namespace.
func (r *recorder) conditions(ctx context.Context, n namespaced) {
	r.say("--- %s: conditions\n%s", n.name, clipped(ofTrouble(r.ask(ctx, n, n.name+"-conditions.txt", "get", fettleKinds, "-o", `jsonpath={range .items[*]}`+
		`{.kind} {.metadata.name} generation {.metadata.generation} phase {.status.phase} primary {.status.primary} annotations {.metadata.annotations.fettle\.dev/switchover}`+
		`{range .status.conditions[*]}{"\n  "}{.type}={.status} {.reason} ({.observedGeneration}, since {.lastTransitionTime}) {.message}{end}{"\n"}{end}`)), 30))
}

// ofTrouble leaves out the objects of which all conditions are True, where there are more of them than can be read at a glance.
func ofTrouble(text string) string {
	const few = 4
	var objects []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, " ") && len(objects) > 0 {
			objects[len(objects)-1] += line
		} else {
			objects = append(objects, line)
		}
	}
	if len(objects) > few {
		objects = slices.DeleteFunc(objects, func(o string) bool { return strings.Count(o, "=True ") == strings.Count(o, "\n  ") })
	}
	return strings.Join(objects, "")
}

// namespace keeps what is in one.
func (r *recorder) namespace(ctx context.Context, n namespaced, since time.Time) {
	r.ask(ctx, n, n.name+"-objects.yaml", "get", fettleKinds+","+otherKinds, "-o", "yaml")
	r.say("--- %s: pods\n%s", n.name, clipped(r.ask(ctx, n, n.name+"-pods.txt", "get", "pods", "-o", "wide", "--show-labels"), 20))
	r.say("--- %s: events\n%s", n.name, lastLines(r.ask(ctx, n, n.name+"-events.txt", "get", "events", "--sort-by=.metadata.creationTimestamp"), essentialEvents))
	pods := &corev1.PodList{}
	if err := k8s.List(ctx, pods, client.InNamespace(n.name)); err != nil {
		r.say("pods: %s\n", err)
	}
	const most = 12 // there may be hundreds
	for i := range pods.Items[:min(len(pods.Items), most)] {
		name := pods.Items[i].Name
		log := r.ask(ctx, n, n.name+"-"+name+".log", "logs", name, "--all-containers", "--prefix", "--timestamps", "--tail=4000", "--since-time="+since.UTC().Format(time.RFC3339))
		if telling := linesOf(log, essential.MatchString); telling != "" {
			r.say("--- %s: log\n%s", name, lastLines(telling, essentialPodLines))
		}
		for _, c := range pods.Items[i].Status.ContainerStatuses {
			if c.RestartCount > 0 {
				r.ask(ctx, n, n.name+"-"+name+"-previous.log", "logs", name, "--previous", "--container="+c.Name, "--tail=4000")
			}
		}
	}
}

// operator keeps what the operator and OLM say.
func (r *recorder) operator(ctx context.Context, since time.Time) {
	n := namespaced{operatorNamespace}
	log := r.ask(ctx, n, "operator.log", "logs", "-l", "app.kubernetes.io/component=manager", "--tail=-1", "--prefix", "--since-time="+since.UTC().Format(time.RFC3339))
	telling := linesOf(log, func(line string) bool {
		of := len(inUse) == 0
		for _, name := range inUse {
			of = of || strings.Contains(line, name)
		}
		return of && essential.MatchString(line)
	})
	r.say("--- operator: log\n%s", lastLines(telling, essentialLines))
	r.say("--- operator: pods\n%s", r.ask(ctx, n, "operator-pods.txt", "get", "pods", "-o", "wide"))
	r.ask(ctx, n, "operator-objects.yaml", "get", "deployments,pods,leases,services,endpointslices,"+
		"subscriptions.operators.coreos.com,installplans.operators.coreos.com,clusterserviceversions.operators.coreos.com,catalogsources.operators.coreos.com", "-o", "yaml")
	r.ask(ctx, n, "operator-events.txt", "get", "events", "--sort-by=.metadata.creationTimestamp")
	r.say("--- namespaces and nodes\n%s", r.ask(ctx, namespaced{}, "cluster.txt", "get", "nodes,namespaces"))
}

// linesOf are the lines that are wanted.
func linesOf(text string, wanted func(line string) bool) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if wanted(line) {
			out.WriteString(line)
		}
	}
	return out.String()
}

// lastLines are the last so many lines, clipped.
func lastLines(text string, most int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return clipped(strings.Join(lines[max(0, len(lines)-most):], "\n"), most)
}

// clipped are the first so many lines, none of them too long to read.
func clipped(text string, most int) string {
	var out strings.Builder
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if i == most {
			break
		}
		out.WriteString(strings.ToValidUTF8(line[:min(len(line), widest)], "") + "\n")
	}
	return out.String()
}
