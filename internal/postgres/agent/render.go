package agent

import (
	"context"
	"fmt"
	"maps"
	"os/user"
	"strconv"
	"time"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/election"
	"github.com/fettle-dev/fettle/internal/postgres/server"
)

// rendering is the part of the configuration that depends on the election.
type rendering struct {
	// standby: it has at least the primary's values of some parameters. upstream is the pod that it follows; "" for none.
	standby  bool
	upstream string
	sync     *election.Quorum
	// minimumsKnown: the control file need not be read again for the primary's values. It was read when the server exited. Values
	// that came from the primary since count at the next start, and a running server takes none of them from its files.
	minimumsKnown bool
}

// renderer returns a function that writes the configuration and reports whether it changed. It may run beside the loop.
func (a *Agent) renderer(r rendering) func() (bool, error) {
	settings := a.settings(a.lastValid, r)
	settings.VolumeSize = a.disk.Size
	if a.walSegmentSize > 0 {
		settings.WALSegment = a.walSegmentSize
	}
	var known *config.Minimums
	if r.minimumsKnown {
		known = a.minimums
	}
	return func() (bool, error) {
		settings, err := a.validator.Filter(a.ctx, settings)
		if err != nil {
			return false, err
		}
		files, err := config.Render(settings)
		if err == nil && r.standby {
			files, err = a.raiseStandbyMinimums(settings, known, files)
		}
		if err != nil {
			return false, fmt.Errorf("render the configuration: %w", err)
		}
		return a.server.Configure(files)
	}
}

// raiseStandbyMinimums makes a standby start with at least the primary's values of some parameters, if the spec has lower ones:
// the primary has to apply those first. It is recorded, because the files have to be rendered again then.
func (a *Agent) raiseStandbyMinimums(settings config.Settings, known *config.Minimums, asked config.Files) (config.Files, error) {
	if known == nil {
		ctx, cancel := context.WithTimeout(a.ctx, sampleTime)
		defer cancel()
		control, err := a.server.ControlData(ctx)
		if err != nil {
			return nil, err
		}
		known = &control.Minimums
	}
	settings.Minimums = *known
	files, err := config.Render(settings)
	raised := err == nil && !maps.Equal(files, asked)
	a.enqueue(func() { a.minimumsRaised = raised })
	return files, err
}

// valid returns what is wrong with an object's parameters and rules. It may be called beside the loop.
func (a *Agent) valid(object *databasev1alpha1.PostgreSQL) error {
	if err := a.sameMajor(object); err != nil {
		return err
	}
	_, err := config.Render(a.settings(object, rendering{}))
	return err
}

// settings are those of this instance. Without an object they contain no settings of the user.
func (a *Agent) settings(object *databasev1alpha1.PostgreSQL, r rendering) config.Settings {
	o := &a.options
	s := config.Settings{
		Major:           a.major,
		DataDir:         a.server.DataDir(),
		ConfigDir:       a.server.ConfigDir(),
		SocketDir:       a.server.SocketDir(),
		Port:            o.PostgresPort,
		ListenAddresses: o.Bind,
		ClusterName:     o.Pod,
		Instances:       maxInstances,
		MemoryLimit:     o.MemoryLimit,
		TLS:             a.tls.server(),
		Synchronous:     synchronous(r.sync),
		LogToken:        a.token,
		SystemUsers:     a.users,
		ArchiveCommand:  o.archiveCommand(),
	}
	if r.upstream != "" {
		s.Upstream = new(a.tls.upstream(o.host(r.upstream), o.PostgresPort, config.SlotName(o.ordinal())))
		s.Upstream.Address = a.peers.IP(r.upstream)
	}
	if object != nil {
		s.Parameters = object.Spec.ParameterValues()
		s.HBA = rules(object.Spec.PgHBA)
		if backup := object.Spec.Backup; backup != nil && backup.Enabled {
			s.ArchiveTimeout = archiveTimeout
		}
		s.WALSegment = int64(object.Spec.Bootstrap.Initdb.WALSegmentSizeMB) << 20
	}
	return s
}

// maxInstances sizes parameters whose change would need a restart: spec.replicas cannot be larger.
const maxInstances = 9

// systemUsers are the system users of the agent and its tools. The images have names for their users, other systems may not.
func systemUsers() []string {
	current, err := user.Current()
	if err != nil {
		return []string{config.Superuser}
	}
	return []string{current.Username}
}

func rules(in []databasev1alpha1.PostgreSQLHBARule) []config.Rule {
	out := make([]config.Rule, 0, len(in))
	for _, r := range in {
		rule := config.Rule{Address: r.CIDR, Auth: config.Auth(r.Method)}
		if r.Method == "" {
			rule.Auth = config.Password
		}
		for _, name := range r.Databases {
			rule.Databases = append(rule.Databases, string(name))
		}
		for _, name := range r.Roles {
			rule.Users = append(rule.Users, string(name), config.SecondLogin(string(name)))
		}
		out = append(out, rule)
	}
	return out
}

// synchronous turns a quorum into a setting. Names that no instance has fill up a quorum with too few, so no commit returns.
func synchronous(q *election.Quorum) *config.Synchronous {
	if q == nil {
		return nil
	}
	names := append([]string{}, q.Names...)
	for i := 0; len(names) < q.Number; i++ {
		names = append(names, "no-standby."+strconv.Itoa(i))
	}
	return &config.Synchronous{Number: q.Number, Names: names}
}

// synchronousNames is the value of synchronous_standby_names for a quorum.
func synchronousNames(q *election.Quorum) string { return synchronous(q).String() }

func (a *Agent) source(pod string) server.Source {
	return server.Source{
		Upstream:        a.tls.upstream(a.options.host(pod), a.options.PostgresPort, ""),
		ApplicationName: a.options.Pod,
	}
}

func (a *Agent) slotsOfOthers() []string {
	var out []string
	for _, name := range a.config.Instances {
		if ordinal, ok := agentapi.Ordinal(a.options.Cluster, name); ok && name != a.options.Pod {
			out = append(out, config.SlotName(ordinal))
		}
	}
	return out
}

// loadConfig loads a changed configuration into a running server, when no task is running.
func (a *Agent) loadConfig(at time.Duration) {
	generation := a.generation()
	// Raised values are checked now and then: the primary's values may be lower by now.
	again := a.minimumsRaised && a.own.Role == election.Standby
	if a.task != nil || a.own.Process != election.Up || at < a.reloadAt || a.loadedGeneration == generation && !again {
		return
	}
	if a.loadedGeneration == generation {
		a.reloadAt = at + volumeInterval
	}
	process, unread := a.process, a.reloadPending
	render := a.renderer(rendering{standby: a.own.Role == election.Standby, upstream: a.own.Upstream, sync: a.own.Sync})
	a.startTask(func(ctx context.Context) func() {
		changed, s, err := a.writeAndReload(ctx, process, unread, render)
		return func() {
			switch {
			case a.process != process || a.own.Process != election.Up:
				return
			case err != nil:
				a.log.Warn("failed to load configuration", "error", err.Error())
				a.reloadAt, a.reloadPending = now()+retryPause, unread || changed
				return
			}
			// Together: the parameters that need a restart must be known when the generation counts as loaded.
			a.loadedGeneration, a.reloadPending = generation, false
			a.recordSample(s)
			if changed {
				a.log.Info("loaded configuration", "generation", generation)
			}
		}
	})
}

// writeAndReload writes the files, makes the server reload them if it may not have, and returns its status after that.
func (a *Agent) writeAndReload(ctx context.Context, process *server.Process, unread bool, render func() (bool, error)) (changed bool, s sample, err error) {
	ctx, cancel := context.WithTimeout(ctx, sampleTime)
	defer cancel()
	changed, err = render()
	if err == nil && (changed || unread) {
		err = a.adminConn.Reload(ctx, process.Reload)
		sleep(ctx, reloadTime)
	}
	if err == nil {
		s, err = a.status(ctx, a.adminConn)
	}
	return changed, s, err
}

func reload(process *server.Process, render func() (bool, error)) error {
	if _, err := render(); err != nil {
		return err
	}
	return process.Reload()
}
