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

// Desired carries out what is desired, on a primary.
func (a *Agent) Desired(ctx context.Context, desired agentapi.Desired) (agentapi.Result, error) {
	shown := a.shown.Load()
	if shown == nil || shown.Role != agentapi.Primary {
		return agentapi.Result{}, fmt.Errorf("%w: %s is not the primary", errNotNow, a.options.Pod)
	}
	result, err := Fulfil(ctx, a.wishing, desired)
	failed := func(item agentapi.Item) bool { return item.Error != "" }
	if err == nil && desired.Hash != "" && !slices.ContainsFunc(result.Items, failed) {
		a.appliedObjects.Store(&appliedObjects{shown.Timeline, agentapi.Applied{Hash: desired.Hash, Inserted: result.Inserted}})
	}
	return result, err
}

// appliedObjects is what was applied on a timeline. A promotion begins another one, on which it may be missing.
type appliedObjects struct {
	timeline wal.Timeline
	agentapi.Applied
}

// Fulfil makes roles, then databases and their extensions on a primary. Each item has its own outcome, and one that fails keeps
// no other from being tried.
func Fulfil(ctx context.Context, primary *sqlclient.Client, desired agentapi.Desired) (agentapi.Result, error) {
	w := &wishes{session: primary}
	w.roles(ctx, desired.Roles)
	w.databases(ctx, desired.Databases)
	var err error
	if w.result.Inserted, err = primary.Inserted(ctx); err != nil {
		return agentapi.Result{}, fmt.Errorf("the end of the log: %w", err)
	}
	return w.result, nil
}

// Restart stops the server; the loop starts it again, as what it was.
func (a *Agent) Restart(ctx context.Context) error {
	err, ok := inLoop(ctx, a, func() error {
		if a.own.Process != election.Up || a.own.Checkpointing || a.task != nil {
			return fmt.Errorf("%w: PostgreSQL is %s", errNotNow, a.phase())
		}
		a.log.Info("restart: it was asked for")
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

type wishes struct {
	session *sqlclient.Client
	result  agentapi.Result
}

// note adds to the outcome of an item.
func (w *wishes) note(kind, name string, changes []string, err error) {
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

func (w *wishes) roles(ctx context.Context, roles []agentapi.DesiredRole) {
	for _, r := range roles {
		role := roleOf(r)
		role.Verifier = r.Verifier
		changes, err := w.session.EnsureRoles(ctx, []sqlclient.Role{role})
		w.note(agentapi.KindRole, r.Name, changes, err)
	}
	// Once all are there, their memberships and second logins.
	for _, r := range roles {
		role := roleOf(r)
		if r.MemberOf != nil {
			role.MemberOf = r.MemberOf
			changes, err := w.session.EnsureRoles(ctx, []sqlclient.Role{role})
			w.note(agentapi.KindRole, r.Name, changes, err)
		}
		if r.Second != nil {
			changes, err := w.session.EnsureLogin(ctx, sqlclient.Login{
				Of: r.Name, Verifier: r.Second.Verifier, Allowed: r.Second.Allowed, ConnectionLimit: role.ConnectionLimit,
			})
			w.note(agentapi.KindRole, r.Name, changes, err)
		}
	}
}

// syncLogins gives second logins the settings of their roles. A failure is only said: a setting of a user may be refused.
func (a *Agent) syncLogins(ctx context.Context) {
	changed, err := a.keeping.SyncLogins(ctx)
	if err != nil {
		a.log.Warn("logins", "error", err.Error())
	}
	if len(changed) > 0 {
		a.log.Info("logins", "changed", changed)
	}
}

// roleOf leaves out the password and the memberships.
func roleOf(r agentapi.DesiredRole) sqlclient.Role {
	role := sqlclient.Role{Name: r.Name, Login: r.Login, CreateDB: r.CreateDB}
	if r.ConnectionLimit != nil && *r.ConnectionLimit >= 0 {
		role.ConnectionLimit = new(int(*r.ConnectionLimit))
	}
	return role
}

func (w *wishes) databases(ctx context.Context, databases []agentapi.DesiredDatabase) {
	for _, d := range databases {
		changes, err := w.session.EnsureDatabase(ctx, sqlclient.Database{Name: d.Name, Owner: d.Owner})
		w.note(agentapi.KindDatabase, d.Name, changes, err)
		for _, e := range d.Extensions {
			if err != nil {
				w.note(agentapi.KindExtension, d.Name+"/"+e.Name, nil, fmt.Errorf("database %s is not there", d.Name))
				continue
			}
			changes, failure := w.session.EnsureDatabase(ctx, sqlclient.Database{Name: d.Name, Extensions: []string{e.Name}})
			w.note(agentapi.KindExtension, d.Name+"/"+e.Name, changes, failure)
		}
	}
}
