package postgres

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/job"
	"github.com/fettle-dev/fettle/internal/backup/runner"
	"github.com/fettle-dev/fettle/internal/backup/store"
	"github.com/fettle-dev/fettle/internal/backup/walarchive"
	"github.com/fettle-dev/fettle/internal/postgres/agent"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/postgres/wal"
	"github.com/fettle-dev/fettle/internal/testenv/teststores"
)

// reachableStore is an S3 store at an address of this machine that agents may connect to: loopback is refused.
func reachableStore(t *testing.T) teststores.Server {
	t.Helper()
	s := teststores.Start(t, backupv1alpha1.StoreS3)[0]
	target, err := url.Parse(s.Destination.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, // a store of this test
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = target.Scheme, target.Host, r.In.Host // which is signed
		},
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if network, ok := a.(*net.IPNet); ok && network.IP.To4() != nil && network.IP.IsGlobalUnicast() {
			front := httptest.NewUnstartedServer(proxy)
			_ = front.Listener.Close()
			if front.Listener, err = net.Listen("tcp", net.JoinHostPort(network.IP.String(), "0")); err != nil {
				t.Fatal(err)
			}
			front.Start()
			t.Cleanup(front.Close)
			s.Destination.Endpoint, s.Keys.CA = front.URL, nil
			return s
		}
	}
	t.Fatal("this machine has no address but loopback")
	return s
}

// permitStore creates the Secret of a destination, and lets the agents read it as the operator does.
func (c *cluster) permitStore(s teststores.Server) {
	c.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: s.Destination.CredentialsSecretRef.Name, Namespace: c.namespace}, Data: s.Keys.Files}
	if err := c.client.Create(c.t.Context(), secret); err != nil {
		c.t.Fatal(err)
	}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.namespace}}
	role.Rules = append(agent.PolicyRules(name, 3), agent.RecoveryRules("", &s.Destination)...)
	if err := c.client.Update(c.t.Context(), role); err != nil {
		c.t.Fatal(err)
	}
}

// mark is a moment after a committed row: all rows up to it were committed before.
type mark struct {
	row     int
	at, lsn string
}

// ledger is a cluster that commits numbered rows, archives WAL and takes base backups.
type ledger struct {
	*cluster
	store teststores.Server
	marks []mark
}

// write commits rows one by one.
func (l *ledger) write(t *testing.T, rows int) {
	t.Helper()
	var primary *instance
	l.eventually("a primary", timeout, func() bool { primary = l.primary(); return primary != nil })
	conn := primary.openConn(t)
	for range rows {
		m := mark{row: len(l.marks) + 1}
		if _, err := conn.Exec(t.Context(), "INSERT INTO numbered VALUES ($1)", m.row); err != nil {
			t.Fatal(err)
		}
		if err := conn.QueryRow(t.Context(), `SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), pg_current_wal_insert_lsn()::text`).
			Scan(&m.at, &m.lsn); err != nil {
			t.Fatal(err)
		}
		l.marks = append(l.marks, m)
		time.Sleep(5 * time.Millisecond)
	}
}

// ledgerReport keeps the result of a run.
type ledgerReport struct {
	mutex  sync.Mutex
	result backupv1alpha1.RunResult
}

func (r *ledgerReport) Progress(context.Context, backupv1alpha1.Progress) error { return nil }

func (r *ledgerReport) Result(_ context.Context, result backupv1alpha1.RunResult) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.result = result
	return nil
}

// backUp takes a base backup of a standby.
func (l *ledger) backUp(t *testing.T, run string) {
	t.Helper()
	standby := l.other(l.waitSettled())
	root := t.TempDir()
	for folder, files := range map[string]map[string][]byte{job.DirStore: l.store.Keys.Files, job.DirReplication: nil} {
		folder = filepath.Join(root, folder)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if files == nil {
			files = map[string][]byte{}
			for _, file := range []string{"tls.crt", "tls.key", "ca.crt"} {
				files[file], _ = os.ReadFile(filepath.Join(standby.dir, "tls", "replication", file))
			}
		}
		for file, content := range files {
			if err := os.WriteFile(filepath.Join(folder, file), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	front := freePorts(t)[0]
	newLink(t, fmt.Sprintf("127.0.0.1:%d", front), func() string { return standby.address(0) })
	report := &ledgerReport{}
	begun := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 2*timeout)
	defer cancel()
	err := runner.Run(ctx, &job.Config{Namespace: l.namespace, Object: run, Backup: &job.Backup{
		Name: name, Method: backupv1alpha1.MethodPhysical, Compression: backupv1alpha1.CompressionZstd, Destination: l.store.Destination,
		Server: job.Server{Type: backupv1alpha1.ServerPostgreSQL, Host: "localhost", Port: int32(front)},
	}}, runner.Options{Report: report, Log: slog.New(slog.DiscardHandler), Temp: t.TempDir(), Root: root})
	if err != nil || report.result.Reason != backupv1alpha1.ReasonSucceeded || report.result.FirstRecoverableTime == nil {
		t.Fatalf("%s: %v, %+v\n%s", run, err, report.result, l.describe())
	}
	t.Logf("base backup of %s after %s", standby.pod, time.Since(begun).Round(time.Millisecond))
}

// newLedger writes rows with base backups before and between two failovers, waits until all WAL is archived, and ends the cluster.
func newLedger(t *testing.T, s teststores.Server) *ledger {
	t.Helper()
	l := &ledger{store: s, cluster: newStoppedCluster(t, 2, 2, func(pg *databasev1alpha1.PostgreSQL) {
		pg.Spec.Backup = &databasev1alpha1.PostgreSQLBackup{Enabled: true, Destination: &s.Destination}
		pg.Spec.Parameters = map[string]intstr.IntOrString{"archive_timeout": intstr.FromString("1s")}
		pg.Spec.Bootstrap.Initdb.WALSegmentSizeMB = 1
	})}
	l.permitStore(s)
	for _, i := range l.instances {
		i.start()
	}
	l.waitSettled()
	l.prepareWrites()
	l.primary().exec(t, "CREATE TABLE numbered (n int PRIMARY KEY)")
	l.write(t, 5)
	l.backUp(t, "first")
	l.write(t, 5)
	failed := l.waitSettled()
	failed.kill()
	l.eventually("another primary", timeout, func() bool { return l.primary() == l.other(failed) })
	l.write(t, 5)
	failed.start()
	l.backUp(t, "second")
	l.write(t, 5)
	primary := l.waitSettled()
	l.switchover(primary)
	l.eventually("another primary", timeout, func() bool { return l.primary() != nil && l.primary() != primary })
	l.write(t, 5)
	l.archived(t)
	for _, i := range l.instances {
		i.stop()
	}
	return l
}

// archived waits until the last row is in the store.
func (l *ledger) archived(t *testing.T) {
	t.Helper()
	last := l.primary().queryUntil("SELECT pg_walfile_name(pg_current_wal_lsn())")
	l.waitArchived(t, l.store, last)
}

// waitArchived waits until the archive of a cluster has a file.
func (c *cluster) waitArchived(t *testing.T, s teststores.Server, file string) {
	t.Helper()
	system := ""
	if status, ok := c.primary().status(); ok {
		system = status.Election.SystemID
	}
	opened, err := store.Open(t.Context(), s.Destination, s.Keys, c.namespace+"/"+name)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	archive := walarchive.New(opened, system)
	c.eventually(file+" to be archived", timeout, func() bool {
		found, err := archive.Has(t.Context(), file)
		if err != nil {
			t.Log(err)
		}
		return found
	})
}

// recovered starts a cluster of one instance from the ledger's backups.
func (l *ledger) recovered(t *testing.T, recovery databasev1alpha1.PostgreSQLRecovery) *cluster {
	t.Helper()
	location := backupv1alpha1.BackupLocation{Destination: l.store.Destination, Namespace: l.namespace, Backup: name}
	if recovery.Location != nil {
		location.Run = recovery.Location.Run
	}
	recovery.Location = &location
	c := newStoppedCluster(t, 1, 1, func(pg *databasev1alpha1.PostgreSQL) {
		pg.Spec.Bootstrap.Recovery = &recovery
		pg.Spec.Backup = &databasev1alpha1.PostgreSQLBackup{Enabled: true, Destination: &l.store.Destination}
		pg.Spec.Parameters = map[string]intstr.IntOrString{"archive_timeout": intstr.FromString("1s")}
	})
	c.permitStore(l.store)
	c.instances[0].start()
	return c
}

// crashInReplay kills a recovering instance that replays WAL, and starts it again.
func (c *cluster) crashInReplay() {
	c.t.Helper()
	i := c.instances[0]
	var replaying agentapi.Status
	c.eventually("replay", timeout, i.statusIs(func(s agentapi.Status) bool {
		replaying = s
		return s.Reason == databasev1alpha1.ReasonCopying && strings.Contains(s.Message, "replaying")
	}))
	if p := replaying.Progress; p == nil || p.Bytes == 0 || p.Bytes != p.TotalBytes || *p.Percent != 99 || p.EstimatedEndTime != nil {
		c.t.Errorf("all of the base backup is copied, not %+v", p)
	}
	i.kill()
	i.start()
}

// TestLedger recovers to times, positions and the end of the WAL after two failovers, and gets exactly the rows that were committed
// before. Targets outside of the archived time are refused.
func TestLedger(t *testing.T) {
	t.Parallel()
	l := newLedger(t, reachableStore(t))
	first := &backupv1alpha1.BackupLocation{Run: "first"}
	for what, c := range map[string]struct {
		rows  int
		to    databasev1alpha1.PostgreSQLRecovery
		crash bool
	}{
		"time before the failovers":    {8, databasev1alpha1.PostgreSQLRecovery{RecoveryTarget: backupv1alpha1.RecoveryTarget{TargetTime: l.marks[7].at}}, false},
		"LSN between them":             {13, databasev1alpha1.PostgreSQLRecovery{RecoveryTarget: backupv1alpha1.RecoveryTarget{TargetLSN: l.marks[12].lsn}}, false},
		"time after the second backup": {18, databasev1alpha1.PostgreSQLRecovery{RecoveryTarget: backupv1alpha1.RecoveryTarget{TargetTime: l.marks[17].at}}, false},
		"latest, with a crash":         {25, databasev1alpha1.PostgreSQLRecovery{}, true},
		"latest, from the first":       {25, databasev1alpha1.PostgreSQLRecovery{Location: first}, false},
	} {
		t.Run(what, func(t *testing.T) {
			begun := time.Now()
			restored := l.recovered(t, c.to)
			if c.crash {
				restored.crashInReplay()
			}
			primary := restored.waitSettled()
			t.Logf("ready after %s", time.Since(begun).Round(time.Millisecond))
			if is := primary.queryUntil("SELECT count(*) || ' ' || max(n) FROM numbered"); is != fmt.Sprintf("%d %d", c.rows, c.rows) {
				t.Errorf("%s rows, want %d", is, c.rows)
			}
			status, _ := primary.status()
			if status.Timeline < 4 || status.Reason != "" || status.Message != "" || status.Progress != nil {
				t.Errorf("%+v", status)
			}
			restored.waitArchived(t, l.store, wal.HistoryFile(status.Timeline)) // in a place of its own
			if !restored.hasEvent("Recovered", primary.pod) && !restored.hasEvent("Recovered", "restored backup") {
				t.Error("no event says that the data were recovered")
			}
		})
	}
	for _, refused := range []struct {
		reason string
		to     databasev1alpha1.PostgreSQLRecovery
	}{
		{databasev1alpha1.ReasonTargetTooEarly, databasev1alpha1.PostgreSQLRecovery{RecoveryTarget: backupv1alpha1.RecoveryTarget{TargetTime: "2020-01-01T00:00:00Z"}}},
		{databasev1alpha1.ReasonTargetNotReached, databasev1alpha1.PostgreSQLRecovery{RecoveryTarget: backupv1alpha1.RecoveryTarget{TargetTime: time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}}},
		{databasev1alpha1.ReasonTargetNotReached, databasev1alpha1.PostgreSQLRecovery{RecoveryTarget: backupv1alpha1.RecoveryTarget{TargetLSN: "7F/0"}}},
		{backupv1alpha1.ReasonNoBackup, databasev1alpha1.PostgreSQLRecovery{Location: &backupv1alpha1.BackupLocation{Run: "third"}}},
	} {
		c, reason := l.recovered(t, refused.to), refused.reason
		c.eventually(reason, timeout, c.instances[0].statusIs(func(s agentapi.Status) bool { return s.Reason == reason }))
		if status, _ := c.instances[0].status(); !strings.Contains(status.Message, "target") && reason != backupv1alpha1.ReasonNoBackup || status.Ready {
			t.Errorf("%+v", status)
		}
	}
}
