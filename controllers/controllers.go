// Package controllers is the operator's table of contents.
package controllers

import (
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/fettle-dev/fettle/controllers/appconfig"
	"github.com/fettle-dev/fettle/controllers/grafanadashboard"
	"github.com/fettle-dev/fettle/controllers/postgresql"
	"github.com/fettle-dev/fettle/controllers/voteconfig"
	"github.com/fettle-dev/fettle/controllers/webapp"
	"github.com/fettle-dev/fettle/controllers/webapppolicy"
	"github.com/fettle-dev/fettle/internal/digest"
	"github.com/fettle-dev/fettle/internal/monitoring"
	"github.com/fettle-dev/fettle/internal/rollout"
)

// Options of all controllers.
type Options struct {
	// Workers is how many objects of each kind are reconciled at once.
	Workers int
	// Namespaces that are watched; none means all.
	Namespaces []string
	// WatchSecrets is false where the role does not allow to watch the metadata of Secrets.
	WatchSecrets bool
	// Webhooks is false where the operator serves none, so that policies are not enforced.
	Webhooks bool
	// RestartDelay is how long a ConfigMap or Secret that WebApps name must not have changed before their pods are restarted; 5 seconds if 0.
	RestartDelay time.Duration
	// AgentImage is the image that new database instances get their agent from: the operator's own.
	AgentImage string
	// Dashboards for Grafana are kept in OperatorNamespace, the operator's own; where that is empty nothing is done about them. It has
	// the key of digests too.
	Dashboards        bool
	OperatorNamespace string
	Metrics           *monitoring.Metrics
}

// Setup registers every controller with the manager.
func Setup(mgr ctrl.Manager, opts Options) error {
	keys := digest.NewKeyring(mgr, opts.OperatorNamespace)
	engine, err := rollout.New(mgr, rollout.Options{Namespaces: opts.Namespaces, Keys: keys})
	if err != nil {
		return err
	}
	err = webapp.Setup(mgr, webapp.Options{
		Workers: opts.Workers, WatchSecrets: opts.WatchSecrets, RestartDelay: opts.RestartDelay,
		Metrics: opts.Metrics, Engine: engine,
	})
	if err != nil {
		return err
	}
	err = appconfig.Setup(mgr, appconfig.Options{
		Workers: opts.Workers, WatchSecrets: opts.WatchSecrets, Metrics: opts.Metrics, Engine: engine, Keys: keys,
	})
	if err != nil {
		return err
	}
	err = voteconfig.Setup(mgr, voteconfig.Options{
		Workers: opts.Workers, Engine: engine, Metrics: opts.Metrics,
	})
	if err != nil {
		return err
	}
	err = postgresql.Setup(mgr, postgresql.Options{
		Workers: opts.Workers, WatchSecrets: opts.WatchSecrets, AgentImage: opts.AgentImage, Metrics: opts.Metrics,
		OperatorNamespace: opts.OperatorNamespace,
	})
	if err != nil {
		return err
	}
	err = grafanadashboard.Setup(mgr, grafanadashboard.Options{Namespace: opts.OperatorNamespace, Namespaces: opts.Namespaces, Wanted: opts.Dashboards})
	if err != nil {
		return err
	}
	return webapppolicy.Setup(mgr, webapppolicy.Options{Workers: opts.Workers, Webhooks: opts.Webhooks, Metrics: opts.Metrics})
}
