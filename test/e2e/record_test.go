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
	// fettleKinds are the kinds with a status by the operator.
	fettleKinds = "webapps.apps.fettle.dev,appconfigs.config.fettle.dev,voteconfigs.voting.fettle.dev,postgresqls.database.fettle.dev," +
		"backups.backup.fettle.dev,backupruns.backup.fettle.dev,restores.backup.fettle.dev,appstacks.platform.fettle.dev,ecommerceplatforms.platform.fettle.dev"
	// otherKinds are the kinds that show the state of their children. Secrets are left out.
	otherKinds = "deployments,replicasets,statefulsets,jobs,pods,services,endpointslices,persistentvolumeclaims,leases,poddisruptionbudgets,configmaps,controllerrevisions"
	// failure-summary.txt holds at most this many events, lines of the operator's log, lines of each pod's log, and characters per line.
	summaryEvents, summaryLines, summaryPodLines, summaryWidth = 12, 12, 4, 200
)

// summaryPattern matches the log lines that failure-summary.txt holds: errors, warnings and decisions.
var summaryPattern = regexp.MustCompile(`(?i)error|warn|executing step|panic|fatal|decision|promoted|accepts connections|configuration loaded|stopping`)

// record saves the reasons of a failed spec while its objects still exist: a folder per failure below E2E_REPORT_DIR/e2e. Its file
// failure-summary.txt is printed at the end of the CI output.
func record(ctx SpecContext) {
	spec, folder := CurrentSpecReport(), os.Getenv("E2E_REPORT_DIR")
	if !spec.Failed() || folder == "" {
		return
	}
	slug := strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(spec.LeafNodeText), "-"), "-")
	r := &recorder{folder: filepath.Join(folder, "e2e", fmt.Sprintf("%d-%.60s", spec.StartTime.Unix(), slug))}
	if err := os.MkdirAll(r.folder, 0o755); err != nil {
		fmt.Fprintln(GinkgoWriter, "failed to record the failure:", err)
		return
	}
	r.printf("%s\n%s: %s\n", spec.FullText(), spec.Failure.Location, truncateLines(spec.Failure.Message, 12))
	for _, name := range inUse {
		r.conditions(ctx, namespaced{name})
	}
	r.operator(ctx, spec.StartTime)
	for _, name := range inUse {
		r.namespace(ctx, namespaced{name}, spec.StartTime)
	}
	r.write("failure-summary.txt", r.failureSummary.String())
	fmt.Fprintf(GinkgoWriter, "the record of the failure is in %s\n", r.folder)
}

// recorder writes one record. An error takes the place of missing output.
type recorder struct {
	folder         string
	failureSummary strings.Builder
}

func (r *recorder) printf(format string, args ...any) {
	fmt.Fprintf(&r.failureSummary, format, args...)
}

func (r *recorder) write(file, text string) {
	if err := os.WriteFile(filepath.Join(r.folder, file), []byte(text), 0o644); err != nil {
		fmt.Fprintln(GinkgoWriter, "the record of the failure:", err)
	}
}

// capture runs a command, writes its output to a file, and returns the output.
func (r *recorder) capture(ctx context.Context, n namespaced, file string, args ...string) string {
	output, err := n.quietly(ctx, args...)
	if err != nil {
		output += "\n" + err.Error() + "\n"
	}
	r.write(file, output)
	return output
}

// conditions saves the conditions of the objects in a namespace.
func (r *recorder) conditions(ctx context.Context, n namespaced) {
	r.printf("--- %s: conditions\n%s", n.name, truncateLines(notAllTrue(r.capture(ctx, n, n.name+"-conditions.txt", "get", fettleKinds, "-o", `jsonpath={range .items[*]}`+
		`{.kind} {.metadata.name} generation {.metadata.generation} phase {.status.phase} primary {.status.primary} annotations {.metadata.annotations.fettle\.dev/switchover}`+
		`{range .status.conditions[*]}{"\n  "}{.type}={.status} {.reason} ({.observedGeneration}, since {.lastTransitionTime}) {.message}{end}{"\n"}{end}`)), 30))
}

// notAllTrue removes the objects with only True conditions if there are too many to read.
func notAllTrue(text string) string {
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

// namespace saves the state of a namespace.
func (r *recorder) namespace(ctx context.Context, n namespaced, since time.Time) {
	r.capture(ctx, n, n.name+"-objects.yaml", "get", fettleKinds+","+otherKinds, "-o", "yaml")
	r.printf("--- %s: pods\n%s", n.name, truncateLines(r.capture(ctx, n, n.name+"-pods.txt", "get", "pods", "-o", "wide", "--show-labels"), 20))
	r.printf("--- %s: events\n%s", n.name, lastLines(r.capture(ctx, n, n.name+"-events.txt", "get", "events", "--sort-by=.metadata.creationTimestamp"), summaryEvents))
	pods := &corev1.PodList{}
	if err := k8s.List(ctx, pods, client.InNamespace(n.name)); err != nil {
		r.printf("pods: %s\n", err)
	}
	const most = 12 // there may be hundreds
	for i := range pods.Items[:min(len(pods.Items), most)] {
		name := pods.Items[i].Name
		log := r.capture(ctx, n, n.name+"-"+name+".log", "logs", name, "--all-containers", "--prefix", "--timestamps", "--tail=4000", "--since-time="+since.UTC().Format(time.RFC3339))
		if telling := linesOf(log, summaryPattern.MatchString); telling != "" {
			r.printf("--- %s: log\n%s", name, lastLines(telling, summaryPodLines))
		}
		for _, c := range pods.Items[i].Status.ContainerStatuses {
			if c.RestartCount > 0 {
				r.capture(ctx, n, n.name+"-"+name+"-previous.log", "logs", name, "--previous", "--container="+c.Name, "--tail=4000")
			}
		}
	}
}

// operator saves the logs and pods of the operator and OLM.
func (r *recorder) operator(ctx context.Context, since time.Time) {
	n := namespaced{operatorNamespace}
	log := r.capture(ctx, n, "operator.log", "logs", "-l", "app.kubernetes.io/component=manager", "--tail=-1", "--prefix", "--since-time="+since.UTC().Format(time.RFC3339))
	telling := linesOf(log, func(line string) bool {
		of := len(inUse) == 0
		for _, name := range inUse {
			of = of || strings.Contains(line, name)
		}
		return of && summaryPattern.MatchString(line)
	})
	r.printf("--- operator: log\n%s", lastLines(telling, summaryLines))
	r.printf("--- operator: pods\n%s", r.capture(ctx, n, "operator-pods.txt", "get", "pods", "-o", "wide"))
	r.capture(ctx, n, "operator-objects.yaml", "get", "deployments,pods,leases,services,endpointslices,"+
		"subscriptions.operators.coreos.com,installplans.operators.coreos.com,clusterserviceversions.operators.coreos.com,catalogsources.operators.coreos.com", "-o", "yaml")
	r.capture(ctx, n, "operator-events.txt", "get", "events", "--sort-by=.metadata.creationTimestamp")
	r.printf("--- namespaces and nodes\n%s", r.capture(ctx, namespaced{}, "cluster.txt", "get", "nodes,namespaces"))
}

// linesOf returns the wanted lines.
func linesOf(text string, wanted func(line string) bool) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if wanted(line) {
			out.WriteString(line)
		}
	}
	return out.String()
}

// lastLines returns the last lines, at most that many, truncated.
func lastLines(text string, most int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return truncateLines(strings.Join(lines[max(0, len(lines)-most):], "\n"), most)
}

// truncateLines returns the first lines, at most that many, each truncated.
func truncateLines(text string, most int) string {
	var out strings.Builder
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if i == most {
			break
		}
		out.WriteString(strings.ToValidUTF8(line[:min(len(line), summaryWidth)], "") + "\n")
	}
	return out.String()
}
