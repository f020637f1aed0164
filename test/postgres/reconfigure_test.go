package postgres

import (
	"context"
	"crypto/tls"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/postgres/pki"
)

// TestCluster_reconfigure changes replicas, parameters and certificates of a running cluster.
func TestCluster_reconfigure(t *testing.T) {
	t.Parallel()
	c := newStoppedCluster(t, 2, 3, synchronous)
	for _, i := range c.instances {
		i.start()
	}
	primary := c.waitSettled()
	c.prepareWrites()
	c.scaleUp(t, primary)
	c.scaleDown(t, primary)
	c.setRejectedParameter(t, primary)
	c.setRestartParameter(t, primary)
	c.replaceCertificates(t, primary)
	c.wantNoSecretsLeaked(t, primary)
	if now := c.waitSettled(); now != primary {
		t.Errorf("the primary changed from %s to %s", primary.pod, now.pod)
	}
}

// scaleUp adds a third instance, which is cloned from the standby.
func (c *cluster) scaleUp(t *testing.T, primary *instance) {
	t.Helper()
	standby, added := c.other(primary), c.prepared[0]
	c.instances = append(c.instances, added)
	c.change(func(spec *databasev1alpha1.PostgreSQLSpec) { spec.Replicas = new(int32(3)) })
	added.start()
	c.waitSettled()
	if !strings.Contains(added.log.text(), `"action":"clone","source":"`+standby.pod+`"`) {
		t.Errorf("%s did not copy %s", added.pod, standby.pod)
	}
	c.eventually("commits to wait for either standby", timeout, primary.statusIs(func(s agentapi.Status) bool {
		return s.Sync != nil && s.Sync.Number == 1 && slices.Equal(s.Sync.Members, []string{standby.pod, added.pod})
	}))
}

const slots = "SELECT coalesce(string_agg(slot_name, ',' ORDER BY slot_name), '-') FROM pg_replication_slots"

// scaleDown removes it again.
func (c *cluster) scaleDown(t *testing.T, primary *instance) {
	t.Helper()
	standby, gone := c.other(primary), c.instances[2]
	c.eventually("a slot for each", timeout, func() bool { return strings.Contains(primary.queryOnce(slots), ",") })
	c.change(func(spec *databasev1alpha1.PostgreSQLSpec) { spec.Replicas = new(int32(2)) })
	gone.stop()
	c.instances, c.prepared = c.instances[:2], c.instances[2:]
	c.eventually("commits to wait for the remaining standby", timeout, primary.statusIs(func(s agentapi.Status) bool {
		c.wantQuorumInLease(t, primary)
		return s.Sync != nil && s.Sync.Number == 1 && slices.Equal(s.Sync.Members, []string{standby.pod})
	}))
	c.eventually("the slot to be dropped", timeout, func() bool { now := primary.queryOnce(slots); return now != "" && !strings.Contains(now, ",") })
	c.eventually("the Lease to have only the new setting", timeout, func() bool { return len(c.quorums()) == 1 })
}

// quorums are the synchronous settings in the Lease, which a new primary has to satisfy.
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

// wantQuorumInLease checks that the Lease has the synchronous setting that is in effect.
func (c *cluster) wantQuorumInLease(t *testing.T, primary *instance) {
	t.Helper()
	before, ok := primary.status()
	quorums := c.quorums()
	after, still := primary.status()
	if !ok || !still || before.Sync == nil || after.Sync == nil || !slices.Equal(before.Sync.Members, after.Sync.Members) {
		return // it changed meanwhile
	}
	has := func(names []string) bool { return slices.Equal(names, after.Sync.Members) }
	if len(after.Sync.Members) >= after.Sync.Number && !slices.ContainsFunc(quorums, has) {
		t.Errorf("commits wait for one of %v, and the Lease has %v", after.Sync.Members, quorums)
	}
}

func (c *cluster) parameters(parameters map[string]intstr.IntOrString) (generation int64) {
	c.t.Helper()
	return c.change(func(spec *databasev1alpha1.PostgreSQLSpec) { spec.Parameters = parameters })
}

// setRejectedParameter sets a value that only PostgreSQL itself can reject. The previous value stays, even after a crash,
// and other parameters are applied.
func (c *cluster) setRejectedParameter(t *testing.T, primary *instance) {
	t.Helper()
	setting := func(name, value string) func() bool {
		return func() bool { return primary.queryOnce("SHOW "+name) == value }
	}
	c.parameters(map[string]intstr.IntOrString{"timezone": intstr.FromString("Europe/Berlin")})
	c.eventually("a time zone", timeout, setting("timezone", "Europe/Berlin"))
	c.parameters(map[string]intstr.IntOrString{"timezone": intstr.FromString("Europe/Nowhere"), "work_mem": intstr.FromString("5MB")})
	c.eventually("the other parameter", timeout, setting("work_mem", "5MB"))
	c.eventually("the agent to report the parameter", timeout, primary.statusIs(func(s agentapi.Status) bool {
		return containsAll(s.ConfigError, "TimeZone", "Europe/Nowhere")
	}))
	from := len(primary.log.text())
	killServer(primary)
	c.eventually("PostgreSQL to end", timeout, func() bool { return strings.Contains(primary.logSince(from), "PostgreSQL exited") })
	c.eventually("the previous time zone", timeout, setting("timezone", "Europe/Berlin"))
	c.waitSettled()
	c.parameters(nil)
	c.eventually("no problem in the agent's status", timeout, primary.statusIs(func(s agentapi.Status) bool { return s.ConfigError == "" }))
	c.eventually("the default", timeout, setting("timezone", "UTC"))
}

// setRestartParameter sets a parameter that needs a restart, and that must not be lower on a standby than on its primary.
func (c *cluster) setRestartParameter(t *testing.T, primary *instance) {
	t.Helper()
	standby := c.other(primary)
	pending := func(s agentapi.Status) bool { return slices.Equal(s.PendingRestart, []string{"max_connections"}) }
	said := primary.waitGeneration(c.parameters(map[string]intstr.IntOrString{"max_connections": intstr.FromString("60")}))
	if !pending(said) {
		t.Errorf("the parameter counts as loaded, and nothing as waiting for a restart: %+v", said)
	}
	c.restart(t, standby)
	if got := standby.queryUntil("SHOW max_connections"); got != "100" {
		t.Errorf("the standby has %s connections, the primary 100", got)
	}
	_, before := primary.pids()
	from := len(primary.log.text())
	c.restart(t, primary)
	if _, now := primary.pids(); now == before || strings.Count(primary.logSince(from), `"msg":"PostgreSQL exited"`) != 1 {
		t.Errorf("the primary was not restarted once: %s", primary.logSince(from))
	}
	if got := primary.queryUntil("SHOW max_connections"); got != "60" {
		t.Errorf("the primary has %s connections", got)
	}
	c.eventually("the standby to need another restart", timeout, standby.statusIs(pending))
	c.restart(t, standby)
	if got := standby.queryUntil("SHOW max_connections"); got != "60" {
		t.Errorf("the standby has %s connections", got)
	}
}

// waitGeneration polls for the first status of the agent with that generation.
func (i *instance) waitGeneration(generation int64) (said agentapi.Status) {
	i.cluster.t.Helper()
	ctx, cancel := context.WithTimeout(i.cluster.t.Context(), timeout)
	defer cancel()
	agent := i.agentClient()
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
	started := i.queryUntil("SELECT pg_postmaster_start_time()::text")
	operator := i.agentClient()
	defer operator.Close()
	c.eventually(i.pod+" to take the request", timeout, func() bool { return operator.Restart(t.Context()) == nil })
	c.eventually(i.pod+" to be another server", timeout, func() bool {
		now := i.queryOnce("SELECT pg_postmaster_start_time()::text")
		return now != "" && now != started
	})
	c.waitSettled()
}

// replaceCertificates replaces the primary's certificate by a valid one, an expired one, and one of another CA.
func (c *cluster) replaceCertificates(t *testing.T, primary *instance) {
	t.Helper()
	session := primary.openConn(t)
	_, postmaster := primary.pids()
	shown := c.servedCertificate(t, primary)
	hosts := append(pki.Hosts(name, c.namespace), "localhost")
	renewed, err := c.ca.Server(hosts, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	primary.writeCertificate("server", renewed)
	c.eventually("the new certificate", timeout, func() bool { now := c.servedCertificate(t, primary); return now != "" && now != shown })
	shown = c.servedCertificate(t, primary)

	ended, err := c.ca.Server(hosts, time.Now().Add(-10*365*24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	primary.writeCertificate("server", ended)
	c.eventually("the agent to report an expired certificate", timeout, primary.statusIs(func(s agentapi.Status) bool {
		return s.Ready && containsAll(s.Message, "certificate in", "expired at", "renew")
	}))
	stranger, err := pki.NewCA(name, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := stranger.Server(hosts, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	primary.writeCertificate("server", foreign)
	c.eventually("the agent to report a certificate of another CA", timeout, primary.statusIs(func(s agentapi.Status) bool {
		return s.Ready && containsAll(s.Message, "certificate in", "not signed by the CA")
	}))
	if c.servedCertificate(t, primary) != shown {
		t.Error("an unusable certificate was loaded")
	}
	primary.writeCertificate("server", renewed)
	c.eventually("no problem in the agent's status", timeout, primary.statusIs(func(s agentapi.Status) bool { return s.Message == "" }))
	if _, err := session.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Errorf("the session from before has ended: %s", err)
	}
	if _, now := primary.pids(); now != postmaster {
		t.Error("PostgreSQL was restarted")
	}
}

// servedCertificate is the serial number of the certificate on a new connection.
func (c *cluster) servedCertificate(t *testing.T, i *instance) string {
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
