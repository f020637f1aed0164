package postgres

import (
	"context"
	"crypto/tls"
	"slices"
	"strings"
	"testing"
	"time"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/postgres/pki"
)

// TestLife changes what a cluster is asked for while it runs: its size, parameters and certificates.
func TestLife(t *testing.T) {
	t.Parallel()
	c := newStopped(t, 2, 3, synchronous)
	for _, i := range c.instances {
		i.start()
	}
	leader := c.settled()
	c.prepareLedger()
	c.grows(t, leader)
	c.shrinks(t, leader)
	c.refused(t, leader)
	c.restarts(t, leader)
	c.certificates(t, leader)
	c.tellsNothing(t, leader)
	if now := c.settled(); now != leader {
		t.Errorf("the primary changed from %s to %s", leader.pod, now.pod)
	}
}

// grows adds a third instance, which copies the one that is not the primary.
func (c *cluster) grows(t *testing.T, leader *instance) {
	t.Helper()
	replica, added := c.other(leader), c.spare[0]
	c.instances = append(c.instances, added)
	c.change(func(spec *databasev1alpha1.PostgreSQLSpec) { spec.Replicas = new(int32(3)) })
	added.start()
	c.settled()
	if !strings.Contains(added.log.text(), `"action":"clone","source":"`+replica.pod+`"`) {
		t.Errorf("%s did not copy %s", added.pod, replica.pod)
	}
	c.eventually("commits to wait for any of both", patience, leader.says(func(s agentapi.Status) bool {
		return s.Sync != nil && s.Sync.Number == 1 && slices.Equal(s.Sync.Members, []string{replica.pod, added.pod})
	}))
}

const slots = "SELECT coalesce(string_agg(slot_name, ',' ORDER BY slot_name), '-') FROM pg_replication_slots"

// shrinks takes it away again.
func (c *cluster) shrinks(t *testing.T, leader *instance) {
	t.Helper()
	replica, gone := c.other(leader), c.instances[2]
	c.eventually("a slot for each", patience, func() bool { return strings.Contains(leader.read(slots), ",") })
	c.change(func(spec *databasev1alpha1.PostgreSQLSpec) { spec.Replicas = new(int32(2)) })
	gone.stop()
	c.instances, c.spare = c.instances[:2], c.instances[2:]
	c.eventually("commits to wait for the one that stays", patience, leader.says(func(s agentapi.Status) bool {
		c.published(t, leader)
		return s.Sync != nil && s.Sync.Number == 1 && slices.Equal(s.Sync.Members, []string{replica.pod})
	}))
	c.eventually("the slot to go", patience, func() bool { now := leader.read(slots); return now != "" && !strings.Contains(now, ",") })
	c.eventually("the record to have the new setting alone", patience, func() bool { return len(c.quorums()) == 1 })
}

// quorums are the settings that a new primary has to satisfy, as the Lease has them.
func (c *cluster) quorums() [][]string {
	_, record := c.lease()
	var out [][]string
	list, _ := record["sync"].([]any)
	for _, one := range list {
		var names []string
		members, _ := one.(map[string]any)["names"].([]any)
		for _, name := range members {
			names = append(names, name.(string))
		}
		out = append(out, names)
	}
	return out
}

// published holds that the setting that is loaded is one that a new primary would have to satisfy.
func (c *cluster) published(t *testing.T, leader *instance) {
	t.Helper()
	before, ok := leader.status()
	quorums := c.quorums()
	after, still := leader.status()
	if !ok || !still || before.Sync == nil || after.Sync == nil || !slices.Equal(before.Sync.Members, after.Sync.Members) {
		return // it changed meanwhile
	}
	has := func(names []string) bool { return slices.Equal(names, after.Sync.Members) }
	if len(after.Sync.Members) >= after.Sync.Number && !slices.ContainsFunc(quorums, has) {
		t.Errorf("commits wait for one of %v, and the Lease has %v", after.Sync.Members, quorums)
	}
}

func (c *cluster) parameters(parameters map[string]databasev1alpha1.ParameterValue) (generation int64) {
	c.t.Helper()
	return c.change(func(spec *databasev1alpha1.PostgreSQLSpec) { spec.Parameters = parameters })
}

// refused sets a value that only PostgreSQL itself knows to be wrong. The one before stays, also over a crash, and what else
// was asked for is taken over.
func (c *cluster) refused(t *testing.T, leader *instance) {
	t.Helper()
	setting := func(name, value string) func() bool {
		return func() bool { return leader.read("SHOW "+name) == value }
	}
	c.parameters(map[string]databasev1alpha1.ParameterValue{"timezone": "Europe/Berlin"})
	c.eventually("a time zone", patience, setting("timezone", "Europe/Berlin"))
	c.parameters(map[string]databasev1alpha1.ParameterValue{"timezone": "Europe/Nowhere", "work_mem": "5MB"})
	c.eventually("the other parameter", patience, setting("work_mem", "5MB"))
	c.eventually("the state page to tell of it", patience, leader.says(func(s agentapi.Status) bool {
		return all(s.ConfigError, "TimeZone", "Europe/Nowhere")
	}))
	from := len(leader.log.text())
	killServer(leader)
	c.eventually("PostgreSQL to end", patience, func() bool { return strings.Contains(leader.since(from), "PostgreSQL exited") })
	c.eventually("the time zone from before the one that is refused", patience, setting("timezone", "Europe/Berlin"))
	c.settled()
	c.parameters(nil)
	c.eventually("no complaint any more", patience, leader.says(func(s agentapi.Status) bool { return s.ConfigError == "" }))
	c.eventually("the default", patience, setting("timezone", "UTC"))
}

// restarts has all take over a parameter that needs it, and that a standby must not have less of than its primary.
func (c *cluster) restarts(t *testing.T, leader *instance) {
	t.Helper()
	replica := c.other(leader)
	pending := func(s agentapi.Status) bool { return slices.Equal(s.PendingRestart, []string{"max_connections"}) }
	said := leader.firstOf(c.parameters(map[string]databasev1alpha1.ParameterValue{"max_connections": "60"}))
	if !pending(said) {
		t.Errorf("the parameter counts as loaded, and nothing as waiting for a restart: %+v", said)
	}
	c.restart(t, replica)
	if got := replica.answer("SHOW max_connections"); got != "100" {
		t.Errorf("the standby has %s connections, the primary 100", got)
	}
	_, before := leader.pids()
	from := len(leader.log.text())
	c.restart(t, leader)
	if _, now := leader.pids(); now == before || strings.Count(leader.since(from), "PostgreSQL exited") != 1 {
		t.Errorf("the primary was not restarted once: %s", leader.since(from))
	}
	if got := leader.answer("SHOW max_connections"); got != "60" {
		t.Errorf("the primary has %s connections", got)
	}
	c.eventually("the standby to need another restart", patience, replica.says(pending))
	c.restart(t, replica)
	if got := replica.answer("SHOW max_connections"); got != "60" {
		t.Errorf("the standby has %s connections", got)
	}
}

// firstOf is what the agent says first of that generation. It is asked in quick succession.
func (i *instance) firstOf(generation int64) (said agentapi.Status) {
	i.cluster.t.Helper()
	ctx, cancel := context.WithTimeout(i.cluster.t.Context(), patience)
	defer cancel()
	agent := i.ask()
	defer agent.Close()
	for said.Generation < generation {
		status, err := agent.Status(ctx)
		if ctx.Err() != nil {
			i.cluster.t.Fatalf("%s has not loaded generation %d: %+v, %v", i.pod, generation, said, err)
		}
		said = status
	}
	return said
}

// restart asks an agent to restart its server, and waits for the cluster.
func (c *cluster) restart(t *testing.T, i *instance) {
	t.Helper()
	started := i.answer("SELECT pg_postmaster_start_time()::text")
	operator := i.ask()
	defer operator.Close()
	c.eventually(i.pod+" to take the request", patience, func() bool { return operator.Restart(t.Context()) == nil })
	c.eventually(i.pod+" to be another server", patience, func() bool {
		now := i.read("SELECT pg_postmaster_start_time()::text")
		return now != "" && now != started
	})
	c.settled()
}

// certificates replaces those of the primary on its disk, by good ones and by ones that nobody would take.
func (c *cluster) certificates(t *testing.T, leader *instance) {
	t.Helper()
	session := leader.session(t)
	_, postmaster := leader.pids()
	shown := c.shown(t, leader)
	hosts := append(pki.Hosts(name, c.namespace), "localhost")
	renewed, err := c.authority.Server(hosts, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	leader.writeCertificate("server", renewed)
	c.eventually("the new certificate", patience, func() bool { now := c.shown(t, leader); return now != "" && now != shown })
	shown = c.shown(t, leader)

	ended, err := c.authority.Server(hosts, time.Now().Add(-10*365*24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	leader.writeCertificate("server", ended)
	c.eventually("the state page to tell of a certificate that has ended", patience, leader.says(func(s agentapi.Status) bool {
		return s.Ready && all(s.Message, "certificate in", "ended at", "renewed")
	}))
	stranger, err := pki.NewAuthority(name, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := stranger.Server(hosts, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	leader.writeCertificate("server", foreign)
	c.eventually("the state page to tell of a stranger's certificate", patience, leader.says(func(s agentapi.Status) bool {
		return s.Ready && all(s.Message, "certificate in", "not of the authority")
	}))
	if c.shown(t, leader) != shown {
		t.Error("a certificate was taken that nobody would take")
	}
	leader.writeCertificate("server", renewed)
	c.eventually("no complaint any more", patience, leader.says(func(s agentapi.Status) bool { return s.Message == "" }))
	if _, err := session.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Errorf("the session from before has ended: %s", err)
	}
	if _, now := leader.pids(); now != postmaster {
		t.Error("PostgreSQL was restarted")
	}
}

// shown is the certificate that a new connection gets to see.
func (c *cluster) shown(t *testing.T, i *instance) string {
	t.Helper()
	conn, err := c.connect(t.Context(), i.address(0))
	if err != nil {
		return ""
	}
	defer conn.Close(t.Context())
	secure, ok := conn.PgConn().Conn().(*tls.Conn)
	if !ok {
		t.Fatalf("%T is no connection over TLS", conn.PgConn().Conn())
	}
	return secure.ConnectionState().PeerCertificates[0].SerialNumber.String()
}
