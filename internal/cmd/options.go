package cmd

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/zap/zapcore"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// Values of --webhook-certs.
const (
	certsProvided   = "provided"
	certsSelfSigned = "self-signed"
)

// defaultCertDir is where OLM mounts the certificate.
const defaultCertDir = "/tmp/k8s-webhook-server/serving-certs"

// disabled is the address that disables an endpoint.
const disabled = "0"

// imageRepository has the images of releases, with the version as the tag.
const imageRepository = "ghcr.io/fettle-dev/fettle"

// acceptedLogging are the values of the flags that configure the log. The usage texts of controller-runtime name a value that it rejects
// (nano), and the defaults of controller-runtime.
var acceptedLogging = map[string]string{
	"zap-encoder":          "json or console",
	"zap-log-level":        "panic, error, info, debug, or a number from 1 on for more detail",
	"zap-stacktrace-level": "panic, error or info",
	"zap-time-encoding":    "rfc3339, rfc3339nano, iso8601, epoch, millis or nanos",
}

// managerOptions are the flags of the manager; docs/configure.md lists them.
type managerOptions struct {
	metricsAddress   string
	metricsSecure    bool
	perObjectMetrics bool
	probeAddress     string
	pprofAddress     string

	leaderElect   bool
	leaseDuration time.Duration
	renewDeadline time.Duration
	retryPeriod   time.Duration

	workers         int
	watchSecrets    bool
	watchNamespaces []string
	agentImage      string
	dashboards      bool
	backups         destinationFlag
	qps             float32
	burst           int

	webhooks       bool
	webhookHost    string // all addresses, except in tests
	webhookPort    int
	webhookCertDir string
	webhookCerts   string

	log zap.Options

	origins map[string]string // the environment variable that set a flag, by the flag
}

func (o *managerOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", ":8443", `address that serves /metrics; "0" disables it`)
	flags.BoolVar(&o.metricsSecure, "metrics-secure", true,
		"serve metrics over HTTPS, only to clients that the API server authenticates and authorizes to get /metrics")
	flags.BoolVar(&o.perObjectMetrics, "per-object-metrics", false,
		"add fettle_resource_ready{kind,namespace,name}: one series per object, so their number is unbounded")
	flags.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", `address that serves /healthz and /readyz; "0" disables it`)
	flags.StringVar(&o.pprofAddress, "pprof-bind-address", disabled,
		`address that serves Go profiles under /debug/pprof, without authentication, such as 127.0.0.1:6060; "0" disables it`)

	flags.BoolVar(&o.leaderElect, "leader-elect", false, "elect one of several replicas as the leader; required with more than one")
	flags.DurationVar(&o.leaseDuration, "leader-elect-lease-duration", 15*time.Second,
		"time after which another replica takes over from an unresponsive leader")
	flags.DurationVar(&o.renewDeadline, "leader-elect-renew-deadline", 10*time.Second,
		"time for which the leader retries to renew its lease before it exits; less than the lease duration")
	flags.DurationVar(&o.retryPeriod, "leader-elect-retry-period", 2*time.Second, "time between two attempts to get or renew the lease")

	flags.IntVar(&o.workers, "workers", 5, "number of objects of a kind that are reconciled concurrently")
	flags.BoolVar(&o.watchSecrets, "watch-secrets", true,
		"watch the metadata of Secrets; false requires no permission to list and watch them, and reads referenced Secrets every 10m")
	flags.StringSliceVar(&o.watchNamespaces, "watch-namespaces", nil, "namespaces to watch, separated by commas; all by default")
	flags.StringVar(&o.agentImage, "agent-image", imageRepository+":"+cmp.Or(Version, "latest"),
		"image of Fettle's agent for new database instances and of backups: the image of the operator")
	flags.Var(&o.backups, "backup-destination",
		"where databases of AppStacks are backed up that need a backup and have no destination: a URI such as s3://my-backups, or a Destination as JSON; empty by default")
	flags.BoolVar(&o.dashboards, "grafana-dashboards", true,
		"keep a ConfigMap with dashboards in the operator's namespace, with the label grafana_dashboard=1 for Grafana's sidecar; false deletes it")
	flags.Float32Var(&o.qps, "kube-api-qps", -1,
		"requests per second to the API server; 0 or less means no client-side limit, because the API server's priority and fairness limits the operator")
	flags.IntVar(&o.burst, "kube-api-burst", 60, "requests that may briefly exceed --kube-api-qps; ignored without that limit")

	flags.BoolVar(&o.webhooks, "webhooks", true, "serve the admission webhooks, which enforce WebAppPolicies")
	flags.IntVar(&o.webhookPort, "webhook-port", 9443, "TCP port of the webhooks")
	flags.StringVar(&o.webhookCertDir, "webhook-cert-dir", defaultCertDir,
		"folder with tls.crt and tls.key of the webhooks; must be writable with --webhook-certs=self-signed")
	flags.StringVar(&o.webhookCerts, "webhook-certs", certsProvided,
		"source of the certificate: provided (by OLM or cert-manager) or self-signed (created, installed and rotated by the operator)")

	o.addGoFlags(flags)
	describeVariables(flags)
}

// addGoFlags adds the flags of controller-runtime.
func (o *managerOptions) addGoFlags(flags *pflag.FlagSet) {
	goFlags := flag.NewFlagSet("", flag.ContinueOnError)
	config.RegisterFlags(goFlags)
	o.log.TimeEncoder = zapcore.RFC3339TimeEncoder
	o.log.StacktraceLevel = zapcore.PanicLevel // the error's text names the source
	o.log.BindFlags(goFlags)
	for name, usage := range map[string]string{
		"zap-devel":            "defaults for development: console encoder, level debug",
		"zap-encoder":          "format of the log (default json)",
		"zap-log-level":        "lowest level to log (default info)",
		"zap-stacktrace-level": "lowest level to log with a stack trace (default panic)",
		"zap-time-encoding":    "format of the time in the log (default rfc3339)",
	} {
		f := goFlags.Lookup(name)
		if f.Usage = usage; acceptedLogging[name] != "" {
			f.Usage += ": " + acceptedLogging[name]
		}
	}
	flags.AddGoFlagSet(goFlags)
}

// complete sets the flags that only the environment sets, and validates all.
func (o *managerOptions) complete(flags *pflag.FlagSet, environment []string) (warnings []warning, err error) {
	if o.origins, warnings, err = setFromEnvironment(flags, environment); err != nil {
		return nil, err
	}
	return warnings, o.validate()
}

// logWarnings uses zap, because a logr.Logger has no level for warnings.
func (o *managerOptions) logWarnings(warnings []warning) {
	logger := zap.NewRaw(zap.UseFlagOptions(&o.log)).Sugar()
	for _, w := range warnings {
		logger.Warnw(w.message, w.fields...)
	}
}

// setting shows the value of a flag with the flag or the environment variable that it comes from.
func (o *managerOptions) setting(flag string, value any) string {
	return fmt.Sprintf("%s=%v", cmp.Or(o.origins[flag], "--"+flag), value)
}

// validate reports all invalid flags and combinations of flags at once.
func (o *managerOptions) validate() error {
	var errs []error
	reject := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.workers < 1 {
		reject("%s: must be at least 1", o.setting("workers", o.workers))
	}
	if o.webhookPort < 1 || o.webhookPort > 65535 {
		reject("%s: must be from 1 to 65535", o.setting("webhook-port", o.webhookPort))
	}
	if o.webhookCerts != certsProvided && o.webhookCerts != certsSelfSigned {
		reject("%s: must be %s or %s", o.setting("webhook-certs", o.webhookCerts), certsProvided, certsSelfSigned)
	}
	if o.qps > 0 && o.burst < 1 {
		reject("%s: must be at least 1 with %s", o.setting("kube-api-burst", o.burst), o.setting("kube-api-qps", o.qps))
	}
	for _, namespace := range o.watchNamespaces {
		if strings.TrimSpace(namespace) == "" {
			reject("%s: has an empty name; leave the list out to watch all namespaces",
				o.setting("watch-namespaces", strings.Join(o.watchNamespaces, ",")))
			break
		}
	}
	return errors.Join(append(errs, o.validateElection())...)
}

func (o *managerOptions) validateElection() error {
	renewDeadline := o.setting("leader-elect-renew-deadline", o.renewDeadline)
	if o.retryPeriod <= 0 || o.renewDeadline <= o.retryPeriod*6/5 {
		return fmt.Errorf("%s: must be positive, and less than 5/6 of %s", o.setting("leader-elect-retry-period", o.retryPeriod), renewDeadline)
	}
	if o.leaseDuration <= o.renewDeadline {
		return fmt.Errorf("%s: must be more than %s", o.setting("leader-elect-lease-duration", o.leaseDuration), renewDeadline)
	}
	return nil
}
