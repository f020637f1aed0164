package agent

import (
	"context"
	"fmt"
	"slices"

	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/postgres/election"
	"github.com/fettle-dev/fettle/internal/postgres/sqlclient"
	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

// ApplyDesired applies the desired databases and roles, on a primary.
func (a *Agent) ApplyDesired(ctx context.Context, desired agentapi.Desired) (agentapi.Result, error) {
	shown := a.published.Load()
	if shown == nil || shown.Role != agentapi.Primary {
		return agentapi.Result{}, fmt.Errorf("%w: %s is not the primary", errNotNow, a.options.Pod)
	}
	result, err := Apply(ctx, a.applyConn, desired)
	failed := func(item agentapi.Item) bool { return item.Error != "" }
	if err == nil && desired.Hash != "" && !slices.ContainsFunc(result.Items, failed) {
		a.appliedObjects.Store(&appliedObjects{shown.Timeline, agentapi.Applied{Hash: desired.Hash, InsertLSN: result.InsertLSN}})
	}
	return result, err
}

// appliedObjects is what was applied on a timeline. A promotion begins another one, on which it may be missing.
type appliedObjects struct {
	timeline wal.Timeline
	agentapi.Applied
}

// Apply creates and updates roles, then databases and their extensions on a primary. Each item has its own outcome, and a failed
// item does not keep others from being applied.
func Apply(ctx context.Context, primary *sqlclient.Client, desired agentapi.Desired) (agentapi.Result, error) {
	w := &databaseObjects{session: primary}
	w.roles(ctx, desired.Roles)
	w.databases(ctx, desired.Databases)
	var err error
	if w.result.InsertLSN, err = primary.InsertLSN(ctx); err != nil {
		return agentapi.Result{}, fmt.Errorf("read the WAL insert position: %w", err)
	}
	return w.result, nil
}

// Restart stops the server; the loop starts it again in the same role.
func (a *Agent) Restart(ctx context.Context) error {
	err, ok := inLoop(ctx, a, func() error {
		if a.own.Process != election.Up || a.own.Checkpointing || a.task != nil {
			return fmt.Errorf("%w: PostgreSQL is %s", errNotNow, a.phase())
		}
		a.log.Info("restarting PostgreSQL on request")
		stop := func() { a.stop(election.Stop{Mode: election.Fast}, now()) }
		if a.own.Role == election.Primary {
			a.checkpoint(stop)
		} else {
			stop()
		}
		return nil
	})
	if !ok {
		return fmt.Errorf("%w: the agent is busy", errNotNow)
	}
	return err
}

type databaseObjects struct {
	session *sqlclient.Client
	result  agentapi.Result
}

// record adds to the outcome of an item.
func (w *databaseObjects) record(kind, name string, changes []string, err error) {
	i := slices.IndexFunc(w.result.Items, func(item agentapi.Item) bool { return item.Kind == kind && item.Name == name })
	if i < 0 {
		i = len(w.result.Items)
		w.result.Items = append(w.result.Items, agentapi.Item{Kind: kind, Name: name})
	}
	item := &w.result.Items[i]
	item.Changed = item.Changed || len(changes) > 0
	if err != nil && item.Error == "" {
		item.Error = oneLine(err.Error())
	}
}

func (w *databaseObjects) roles(ctx context.Context, roles []agentapi.DesiredRole) {
	for _, r := range roles {
		role := roleOf(r)
		role.Verifier = r.Verifier
		changes, err := w.session.EnsureRoles(ctx, []sqlclient.Role{role})
		w.record(agentapi.KindRole, r.Name, changes, err)
	}
	// Memberships and second logins need all roles to exist.
	for _, r := range roles {
		role := roleOf(r)
		if r.MemberOf != nil {
			role.MemberOf = r.MemberOf
			changes, err := w.session.EnsureRoles(ctx, []sqlclient.Role{role})
			w.record(agentapi.KindRole, r.Name, changes, err)
		}
		if r.SecondLogin != nil {
			changes, err := w.session.EnsureLogin(ctx, sqlclient.Login{
				Role: r.Name, Verifier: r.SecondLogin.Verifier, Allowed: r.SecondLogin.Allowed, ConnectionLimit: role.ConnectionLimit,
			})
			w.record(agentapi.KindRole, r.Name, changes, err)
		}
	}
}

// syncLogins gives second logins the settings of their roles. A failure is only logged: PostgreSQL may reject a user's setting.
func (a *Agent) syncLogins(ctx context.Context) {
	changed, err := a.maintenanceConn.SyncLogins(ctx)
	if err != nil {
		a.log.Warn("failed to synchronize second logins", "error", err.Error())
	}
	if len(changed) > 0 {
		a.log.Info("synchronized second logins", "changed", changed)
	}
}

// roleOf converts a role without its password and memberships.
func roleOf(r agentapi.DesiredRole) sqlclient.Role {
	role := sqlclient.Role{Name: r.Name, Login: r.Login, CreateDB: r.CreateDB}
	if r.ConnectionLimit != nil && *r.ConnectionLimit >= 0 {
		role.ConnectionLimit = new(int(*r.ConnectionLimit))
	}
	return role
}

func (w *databaseObjects) databases(ctx context.Context, databases []agentapi.DesiredDatabase) {
	for _, d := range databases {
		changes, err := w.session.EnsureDatabase(ctx, sqlclient.Database{Name: d.Name, Owner: d.Owner})
		w.record(agentapi.KindDatabase, d.Name, changes, err)
		for _, e := range d.Extensions {
			if err != nil {
				w.record(agentapi.KindExtension, d.Name+"/"+e.Name, nil, fmt.Errorf("database %s does not exist", d.Name))
				continue
			}
			changes, failure := w.session.EnsureDatabase(ctx, sqlclient.Database{Name: d.Name, Extensions: []string{e.Name}})
			w.record(agentapi.KindExtension, d.Name+"/"+e.Name, changes, failure)
		}
	}
}
