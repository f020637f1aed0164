// Package controllers registers the controllers of all kinds.
package controllers

import (
	"time"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/fettle-dev/fettle/controllers/appconfig"
	"github.com/fettle-dev/fettle/controllers/appstack"
	"github.com/fettle-dev/fettle/controllers/backup"
	"github.com/fettle-dev/fettle/controllers/backuprun"
	"github.com/fettle-dev/fettle/controllers/ecommerceplatform"
	"github.com/fettle-dev/fettle/controllers/grafanadashboard"
	"github.com/fettle-dev/fettle/controllers/postgresql"
	"github.com/fettle-dev/fettle/controllers/restore"
	"github.com/fettle-dev/fettle/controllers/voteconfig"
	"github.com/fettle-dev/fettle/controllers/webapp"
	"github.com/fettle-dev/fettle/controllers/webapppolicy"
	"github.com/fettle-dev/fettle/internal/digest"
	"github.com/fettle-dev/fettle/internal/monitoring"
	"github.com/fettle-dev/fettle/internal/reconciler"
	"github.com/fettle-dev/fettle/internal/rollout"
	"github.com/fettle-dev/fettle/internal/stack"
)

// Options of all controllers.
type Options struct {
	// Workers is how many objects of each kind are reconciled at once.
	Workers int
	// Namespaces to watch; none means all.
	Namespaces []string
	// WatchSecrets is false if the role does not permit watching the metadata of Secrets.
	WatchSecrets bool
	// Webhooks is false if the operator serves no webhooks, and policies are not enforced.
	Webhooks bool
	// RestartDelay is the time without a further change of a ConfigMap or Secret after which the pods of WebApps restart; 5 seconds
	// if 0.
	RestartDelay time.Duration
	// AgentImage is the image with the agent of new PostgreSQL instances and the program of backups: the operator's own.
	AgentImage string
	// Stacks are the settings of AppStacks.
	Stacks stack.Options
	// Dashboards creates the Grafana dashboards in OperatorNamespace, the operator's own namespace. Nothing is created if it is
	// empty. It also has the key for digests.
	Dashboards        bool
	OperatorNamespace string
	Metrics           *monitoring.Metrics
	// Clock is the system's if it is nil. Only tests set it.
	Clock clock.PassiveClock
}

// Setup registers every controller with the manager.
func Setup(mgr ctrl.Manager, opts Options) error {
	common := reconciler.Options{Workers: opts.Workers, WatchSecrets: opts.WatchSecrets, Metrics: opts.Metrics, Clock: opts.Clock}
	keys := digest.NewKeyring(mgr, opts.OperatorNamespace)
	engine, err := rollout.New(mgr, rollout.Options{Namespaces: opts.Namespaces, Keys: keys})
	if err != nil {
		return err
	}
	err = webapp.Setup(mgr, webapp.Options{Options: common, RestartDelay: opts.RestartDelay, Engine: engine})
	if err != nil {
		return err
	}
	err = appconfig.Setup(mgr, appconfig.Options{Options: common, Engine: engine, Keys: keys})
	if err != nil {
		return err
	}
	err = voteconfig.Setup(mgr, voteconfig.Options{Options: common, Engine: engine})
	if err != nil {
		return err
	}
	err = postgresql.Setup(mgr, postgresql.Options{Options: common, AgentImage: opts.AgentImage, OperatorNamespace: opts.OperatorNamespace})
	if err != nil {
		return err
	}
	if err := setupBackups(mgr, common, opts.AgentImage); err != nil {
		return err
	}
	if err := appstack.Setup(mgr, appstack.Options{Options: common, Stack: opts.Stacks}); err != nil {
		return err
	}
	if err := ecommerceplatform.Setup(mgr, common); err != nil {
		return err
	}
	err = grafanadashboard.Setup(mgr, grafanadashboard.Options{Namespace: opts.OperatorNamespace, Namespaces: opts.Namespaces, Wanted: opts.Dashboards})
	if err != nil {
		return err
	}
	return webapppolicy.Setup(mgr, webapppolicy.Options{Options: common, Webhooks: opts.Webhooks})
}

// setupBackups registers the controllers of the kinds of backups.
func setupBackups(mgr ctrl.Manager, common reconciler.Options, image string) error {
	if err := backup.Setup(mgr, common); err != nil {
		return err
	}
	if err := backuprun.Setup(mgr, backuprun.Options{Options: common, FettleImage: image}); err != nil {
		return err
	}
	return restore.Setup(mgr, restore.Options{Options: common, FettleImage: image})
}
