package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/fettle-dev/fettle/api"
	"github.com/fettle-dev/fettle/controllers"
	"github.com/fettle-dev/fettle/internal/cache"
	"github.com/fettle-dev/fettle/internal/monitoring"
	"github.com/fettle-dev/fettle/internal/stack"
	"github.com/fettle-dev/fettle/internal/webhook"
)

const (
	leaderElectionID = "fettle.fettle.dev"
	// shutdownTimeout bounds how long all parts may take to stop; the pod's grace period is 30 s.
	shutdownTimeout = 20 * time.Second
	// reconcileTimeout bounds a call that hangs, which would block a worker forever.
	reconcileTimeout = time.Minute
)

// command is the operator: it runs all controllers and serves the webhooks until it is stopped.
func (o *managerOptions) command() *cobra.Command {
	c := &cobra.Command{
		Use:   "manager",
		Short: "Run the operator",
		Long: "Run the operator.\n\nAn environment variable can set each flag: FETTLE_WORKERS sets --workers. A flag on the command line has precedence over\n" +
			"the variable, and the variable over the default. An empty variable counts as not set.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			warnings, err := o.complete(c.Flags(), os.Environ())
			if err != nil {
				return err
			}
			logger := zap.New(zap.UseFlagOptions(&o.log))
			ctrl.SetLogger(logger)
			klog.SetLogger(logger)
			o.logWarnings(warnings)
			cluster, err := ctrl.GetConfig()
			if err != nil {
				return fmt.Errorf("find a cluster (--kubeconfig, KUBECONFIG or the pod's ServiceAccount): %w", err)
			}
			cluster.QPS, cluster.Burst = o.qps, o.burst
			return o.run(c.Context(), cluster)
		},
	}
	o.addFlags(c.Flags())
	return c
}

func (o *managerOptions) run(ctx context.Context, cluster *rest.Config) error {
	options, err := o.managerOptions()
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(cluster, options)
	if err != nil {
		return fmt.Errorf("set up manager: %w", err)
	}
	if err := o.addChecks(ctx, mgr); err != nil {
		return err
	}
	err = controllers.Setup(mgr, controllers.Options{
		Workers:      o.workers,
		Namespaces:   o.watchNamespaces,
		WatchSecrets: o.watchSecrets,
		Webhooks:     o.webhooks,
		AgentImage:   o.agentImage,
		Dashboards:   o.dashboards,
		Stacks:       stack.Options{BackupDestination: o.backups.value},
		Metrics:      monitoring.New(metrics.Registry, o.perObjectMetrics),

		OperatorNamespace: operatorNamespace(),
	})
	if err != nil {
		return err
	}
	if err := addPolicies(mgr); err != nil {
		return err
	}
	mgr.GetLogger().Info("starting", "version", version(), "webhooks", o.webhooks, "workers", o.workers)
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run manager: %w", err)
	}
	return nil
}

func (o *managerOptions) managerOptions() (ctrl.Options, error) {
	scheme, err := newScheme()
	if err != nil {
		return ctrl.Options{}, err
	}
	watched, err := cache.Options(o.watchNamespaces)
	if err != nil {
		return ctrl.Options{}, err
	}
	m := metricsserver.Options{BindAddress: o.metricsAddress, SecureServing: o.metricsSecure}
	if o.metricsSecure {
		m.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	return ctrl.Options{
		Scheme:                        scheme,
		Cache:                         watched,
		NewCache:                      cache.New(o.watchSecrets),
		Metrics:                       m,
		HealthProbeBindAddress:        o.probeAddress,
		PprofBindAddress:              o.pprofAddress,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              leaderElectionID,
		LeaderElectionNamespace:       operatorNamespace(),
		LeaderElectionReleaseOnCancel: true, // safe, because the process exits with the manager
		LeaseDuration:                 &o.leaseDuration,
		RenewDeadline:                 &o.renewDeadline,
		RetryPeriod:                   &o.retryPeriod,
		GracefulShutdownTimeout:       new(shutdownTimeout),
		Controller: config.Controller{
			MaxConcurrentReconciles: o.workers,
			ReconciliationTimeout:   reconcileTimeout,
			EnableWarmup:            new(true), // a standby has full caches when it becomes leader
		},
		WebhookServer: ctrlwebhook.NewServer(ctrlwebhook.Options{
			Host: o.webhookHost, Port: o.webhookPort, CertDir: o.webhookCertDir,
		}),
	}, nil
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, api.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("set up scheme: %w", err)
		}
	}
	return scheme, nil
}

// operatorNamespace is the namespace of the operator's Lease and certificate.
func operatorNamespace() string {
	return cmp.Or(os.Getenv("POD_NAMESPACE"), "fettle-system")
}

// addChecks sets up the webhooks, and the liveness and readiness checks. A standby is ready too, because it also serves the webhooks.
func (o *managerOptions) addChecks(ctx context.Context, mgr manager.Manager) error {
	ready := healthz.Ping
	if o.webhooks {
		served, err := o.addWebhooks(ctx, mgr)
		if err != nil {
			return fmt.Errorf("set up webhooks: %w", err)
		}
		ready = served
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("set up /healthz: %w", err)
	}
	if err := mgr.AddReadyzCheck("webhooks", ready); err != nil {
		return fmt.Errorf("set up /readyz: %w", err)
	}
	return nil
}

// addWebhooks returns the readiness check of the webhooks.
func (o *managerOptions) addWebhooks(ctx context.Context, mgr manager.Manager) (healthz.Checker, error) {
	if o.webhookCerts == certsProvided {
		return mgr.GetWebhookServer().StartedChecker(), webhook.Setup(ctx, mgr, stack.Options{BackupDestination: o.backups.value})
	}
	issued, err := addCertificates(mgr, operatorNamespace(), o.webhookCertDir)
	if err != nil {
		return nil, err
	}
	// The server cannot start without a certificate, so it is added to the manager when one exists.
	served := make(chan struct{})
	serve := func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return nil
		case <-issued:
		}
		if err := webhook.Setup(ctx, mgr, stack.Options{BackupDestination: o.backups.value}); err != nil {
			return fmt.Errorf("set up webhooks: %w", err)
		}
		close(served)
		<-ctx.Done()
		return nil
	}
	return func(request *http.Request) error {
		select {
		case <-served:
			return mgr.GetWebhookServer().StartedChecker()(request)
		default:
			return errors.New("waiting for the webhooks' certificate")
		}
	}, mgr.Add(onEveryReplica(serve))
}

// onEveryReplica is a part of the manager that runs in standbys too.
type onEveryReplica func(context.Context) error

// Start implements manager.Runnable.
func (run onEveryReplica) Start(ctx context.Context) error { return run(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (onEveryReplica) NeedLeaderElection() bool { return false }
