package agent

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/election"
	"github.com/fettle-dev/fettle/internal/postgres/server"
	"github.com/fettle-dev/fettle/internal/postgres/sqlclient"
	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

var options = Options{Cluster: "db", Namespace: "shop", Pod: "db-1", PodUID: "u"}

func newObject(change func(*databasev1alpha1.PostgreSQL)) *databasev1alpha1.PostgreSQL {
	object := &databasev1alpha1.PostgreSQL{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "shop"}}
	object.Spec.Replicas = new(int32(3))
	change(object)
	return object
}

func TestConfigOf(t *testing.T) {
	annotate := func(key, value string) func(*databasev1alpha1.PostgreSQL) {
		return func(o *databasev1alpha1.PostgreSQL) { o.Annotations = map[string]string{key: value} }
	}
	base := func(change func(*election.Config)) election.Config {
		c := election.Config{
			Self: election.Holder{Name: "db-1", UID: "u"}, Instances: []string{"db-0", "db-1", "db-2"},
			Failsafe: true, AutoReclone: true, MaximumLag: 32 << 20, Timing: election.DefaultTiming(),
		}
		change(&c)
		return c
	}
	for _, c := range []struct {
		name   string
		object func(*databasev1alpha1.PostgreSQL)
		want   func(*election.Config)
	}{
		{"nothing asked for", func(*databasev1alpha1.PostgreSQL) {}, func(*election.Config) {}},
		{"to be removed", func(o *databasev1alpha1.PostgreSQL) { *o.Spec.Replicas = 1 },
			func(c *election.Config) { c.Instances = []string{"db-0", "db-1"} }},
		{"synchronous", func(o *databasev1alpha1.PostgreSQL) {
			o.Spec.Synchronous = &databasev1alpha1.PostgreSQLSynchronous{Number: 2}
		},
			func(c *election.Config) { c.Synchronous = 2 }},
		{"switchover", annotate(databasev1alpha1.AnnotationSwitchover, "db-2"), func(c *election.Config) { c.SwitchoverTarget, c.SwitchoverRequested = "db-2", true }},
		{"switchover to a number", annotate(databasev1alpha1.AnnotationSwitchover, "0"), func(c *election.Config) { c.SwitchoverTarget, c.SwitchoverRequested = "db-0", true }},
		{"a primary for good", func(o *databasev1alpha1.PostgreSQL) { o.Spec.PreferredPrimary = "2" }, func(c *election.Config) { c.SwitchoverTarget = "db-2" }},
		{"a primary for good, and no instance for now", func(o *databasev1alpha1.PostgreSQL) {
			o.Annotations = map[string]string{databasev1alpha1.AnnotationSwitchover: "any"}
			o.Spec.PreferredPrimary = "db-2"
		}, func(c *election.Config) { c.SwitchoverTarget = "db-2" }},
		{"switchover to no instance", annotate(databasev1alpha1.AnnotationSwitchover, "other-2"), func(*election.Config) {}},
		{"fenced", annotate(databasev1alpha1.AnnotationFenced, "db-0, db-1"), func(c *election.Config) { c.Fenced = true }},
		{"no copy by itself", func(o *databasev1alpha1.PostgreSQL) { o.Spec.ReplicaRecovery = databasev1alpha1.ReplicaRecoveryManual }, func(c *election.Config) { c.AutoReclone = false }},
		{"a copy is asked for", annotate(databasev1alpha1.AnnotationReclone, "db-0, db-1"), func(c *election.Config) { c.RecloneRequested = true }},
		{"a copy of others", annotate(databasev1alpha1.AnnotationReclone, "*,db-10,db-0"), func(*election.Config) {}},
		{"others are fenced", annotate(databasev1alpha1.AnnotationFenced, "db-10,db-0"), func(*election.Config) {}},
		{"all are fenced", annotate(databasev1alpha1.AnnotationFenced, "*"), func(c *election.Config) { c.Fenced = true }},
		{"hibernated", func(o *databasev1alpha1.PostgreSQL) { o.Spec.Hibernated = true }, func(c *election.Config) { c.Hibernated = true }},
		{"paused", func(o *databasev1alpha1.PostgreSQL) { o.Spec.Paused = true }, func(c *election.Config) { c.Paused = true }},
		{"a grace period", func(o *databasev1alpha1.PostgreSQL) { o.Spec.TerminationGracePeriodSeconds = new(int64(300)) },
			func(c *election.Config) { c.StopTimeout = 292 * time.Second }},
		{"what may be lost", func(o *databasev1alpha1.PostgreSQL) { o.Spec.Failover.MaximumLag = resource.MustParse("1Gi") },
			func(c *election.Config) { c.MaximumLag = 1 << 30 }},
		{"a loss is accepted", annotate(databasev1alpha1.AnnotationAcceptDataLoss, "db-0"), func(c *election.Config) { c.AcceptDataLoss = "db-0" }},
		{"times", func(o *databasev1alpha1.PostgreSQL) {
			o.Spec.Lease = databasev1alpha1.PostgreSQLLease{LeaseDurationSeconds: 20, RenewDeadlineSeconds: 15, RetryPeriodSeconds: 3}
		}, func(c *election.Config) {
			c.LeaseDuration, c.FenceDeadline, c.RenewInterval = 20*time.Second, 15*time.Second, 3*time.Second
		}},
	} {
		if diff := cmp.Diff(base(c.want), configOf(&options, newObject(c.object), false)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestConfigOf_objectFromVolume: of an object that was kept from before, nobody knows whether a loss is still accepted.
func TestConfigOf_objectFromVolume(t *testing.T) {
	object := newObject(func(o *databasev1alpha1.PostgreSQL) {
		o.Generation, o.Annotations = 7, map[string]string{databasev1alpha1.AnnotationAcceptDataLoss: "db-1"}
	})
	if c := configOf(&options, object, true); c.AcceptDataLoss != "" || c.Generation != 0 {
		t.Errorf("accepts a loss for %q, by generation %d", c.AcceptDataLoss, c.Generation)
	}
}

// TestTrackPreference_changes has the object change: only another spec.preferredPrimary is a new wish for good.
func TestTrackPreference_changes(t *testing.T) {
	a := &Agent{options: options}
	for _, c := range []struct {
		name   string
		change func(*databasev1alpha1.PostgreSQL)
		again  bool
	}{
		{"at the start", func(o *databasev1alpha1.PostgreSQL) { o.Spec.PreferredPrimary = "db-0" }, false},
		{"something else", func(o *databasev1alpha1.PostgreSQL) { o.Spec.PreferredPrimary, o.Spec.Paused = "db-0", true }, false},
		{"an annotation", func(o *databasev1alpha1.PostgreSQL) {
			o.Spec.PreferredPrimary, o.Annotations = "db-0", map[string]string{databasev1alpha1.AnnotationSwitchover: "db-2"}
		}, false},
		{"it is gone", func(o *databasev1alpha1.PostgreSQL) { o.Spec.PreferredPrimary = "db-0" }, false},
		{"another one", func(o *databasev1alpha1.PostgreSQL) { o.Spec.PreferredPrimary = "db-1" }, true},
		{"nothing", func(o *databasev1alpha1.PostgreSQL) { o.Spec.PreferredPrimary = "db-1" }, false},
	} {
		object, before := newObject(c.change), a.preferenceChangedAt
		if at := a.trackPreference(object); (at != before) != c.again || at != a.preferenceChangedAt {
			t.Errorf("%s: wished at %s, before at %s", c.name, at, before)
		}
		a.spec = object
	}
}

// TestSample_positionNeverGoesBack has a standby that lost its receiver, after which PostgreSQL names an older timeline.
func TestSample_positionNeverGoesBack(t *testing.T) {
	a := &Agent{options: options}
	a.own.Role = election.Standby
	for i, c := range []struct {
		timeline wal.Timeline
		received wal.LSN
		receiver bool
		want     election.Position
	}{
		{1, 100, true, election.Position{Timeline: 1, LSN: 100}},
		{2, 200, true, election.Position{Timeline: 2, LSN: 200}},
		{1, 230, false, election.Position{Timeline: 2, LSN: 230}},
		{2, 210, false, election.Position{Timeline: 2, LSN: 230}},
	} {
		s := sample{Status: sqlclient.Status{InRecovery: true, Timeline: c.timeline, Received: c.received}}
		if c.receiver {
			s.Receiver = &sqlclient.Receiver{State: "streaming"}
		}
		a.recordSample(s)
		if a.own.Position != c.want || a.own.Receiving != c.receiver {
			t.Errorf("step %d: at %v, receiving %v; want %v, %v", i, a.own.Position, a.own.Receiving, c.want, c.receiver)
		}
	}
}

// TestRecordStandbys_streaming keeps a standby that went away, without counting it.
func TestRecordStandbys_streaming(t *testing.T) {
	a := &Agent{options: options}
	a.config.Instances = []string{"db-0", "db-1", "db-2"}
	senders := func(s ...sqlclient.Sender) sqlclient.Status { return sqlclient.Status{Written: 100 << 20, Senders: s} }
	a.recordStandbys(senders(
		sqlclient.Sender{Name: "db-0", State: "streaming", Flushed: 100 << 20}, sqlclient.Sender{Name: "db-2", State: "streaming", Flushed: 10 << 20},
		sqlclient.Sender{Name: "stranger", State: "streaming"},
	), 5*time.Second)
	a.recordStandbys(senders(sqlclient.Sender{Name: "db-0", State: "catchup"}, sqlclient.Sender{Name: "db-2", State: "streaming", Flushed: 99 << 20}), 6*time.Second)
	want := map[string]election.StandbyStatus{
		"db-0": {FlushLSN: 100 << 20, StreamingAt: 5 * time.Second},
		"db-2": {Streaming: true, CaughtUp: true, FlushLSN: 99 << 20, StreamingAt: 6 * time.Second},
	}
	if diff := cmp.Diff(want, a.standbys); diff != "" {
		t.Error(diff)
	}
}

func TestSynchronousNames(t *testing.T) {
	for _, c := range []struct {
		quorum *election.Quorum
		want   string
	}{
		{nil, ""},
		{&election.Quorum{Number: 1, Names: []string{"db-0", "db-2"}}, `ANY 1 ("db-0","db-2")`},
		{&election.Quorum{Number: 1}, `ANY 1 ("no-standby.0")`},
		{&election.Quorum{Number: 2, Names: []string{"db-0"}}, `ANY 2 ("db-0","no-standby.0")`},
	} {
		if got := synchronousNames(c.quorum); got != c.want {
			t.Errorf("%v: %s, want %s", c.quorum, got, c.want)
		}
	}
}

// TestNeedsRecloneMark_lastsUntilDone is about a rewind that did not end.
func TestNeedsRecloneMark_lastsUntilDone(t *testing.T) {
	a := &Agent{options: Options{Volume: t.TempDir()}}
	if err := a.clearNeedsReclone(); err != nil {
		t.Errorf("without a mark: %v", err)
	}
	if err := a.markNeedsReclone(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(a.options.Volume, "fettle", needsRecloneFile)); err != nil {
		t.Error(err)
	}
	if err := a.clearNeedsReclone(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(a.needsReclonePath()); err == nil {
		t.Error("the mark is still there")
	}
}

func TestConnectFailed_messages(t *testing.T) {
	for text, want := range map[string]bool{
		`pg_rewind: error: connection to server at "10.0.0.1", port 5432 failed: Connection refused`: true,
		`pg_rewind: fatal: could not connect to server: Connection refused`:                          true,
		`pg_rewind: error: could not fetch remote file "x": server closed the connection`:            false,
		`pg_rewind: fatal: source and target clusters are from different systems`:                    false,
	} {
		if got := connectFailed.MatchString(text); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestConfigOf_requestedPrimaryOfOthers(t *testing.T) {
	a := &Agent{options: options, log: NewLogger(discard{}, nil)}
	a.config.Instances = []string{"db-0", "db-1", "db-2"}
	if got := a.slotsOfOthers(); !cmp.Equal(got, []string{"fettle_0", "fettle_2"}) {
		t.Errorf("slots %v", got)
	}
	var exit server.Exit
	a.own.Process = election.Stopping
	a.processExited(exit, dataDirState{data: election.Usable})
	if a.own.CrashedAt != 0 || a.own.Process != election.Down {
		t.Errorf("an ordered stop counts as a crash: %+v", a.own)
	}
	a.own.Process = election.Up
	a.processExited(exit, dataDirState{data: election.Usable})
	if a.own.CrashedAt == 0 || a.own.CrashedAt != a.own.ProcessSince {
		t.Errorf("a crash is not noted: %+v", a.own)
	}
}

type discard struct{}

func (discard) Write(in []byte) (int, error) { return len(in), nil }

// TestOffHistory_minRecovery is about a standby that has received from a primary which it could not follow.
func TestOffHistory_minRecovery(t *testing.T) {
	history := []election.TimelineSwitch{{Timeline: 4, LSN: 50}, {Timeline: 5, LSN: 100}, {Timeline: 6, LSN: 200}}
	for _, c := range []struct {
		name     string
		replayed election.Position
		timeline wal.Timeline
		want     bool
	}{
		{"a primary", election.Position{}, 7, false},
		{"on the latest", election.Position{Timeline: 7, LSN: 300}, 7, false},
		{"at the fork", election.Position{Timeline: 5, LSN: 100}, 7, false},
		{"beyond the fork", election.Position{Timeline: 5, LSN: 101}, 7, true},
		{"on a timeline that is no ancestor", election.Position{Timeline: 3, LSN: 1}, 7, true},
	} {
		control := server.ControlData{MinRecoveryTimeline: wal.Timeline(c.replayed.Timeline), MinRecovery: wal.LSN(c.replayed.LSN)}
		if at, got := offHistory(control, c.timeline, history); got != c.want || at != c.replayed {
			t.Errorf("%s: %v at %v", c.name, got, at)
		}
	}
}

// TestSample_walGoneIsNotStreaming has a receiver begin again and again, which the primary ends: it says that it streams each time.
func TestSample_walGoneIsNotStreaming(t *testing.T) {
	a := &Agent{options: options, peers: &peers{}}
	a.config.Timing = election.DefaultTiming()
	a.own = election.Server{Process: election.Up, Role: election.Standby, Position: election.Position{Timeline: 1, LSN: 100}}
	receiving := func(asked time.Duration, at wal.LSN) sample {
		return sample{asked: asked, Status: sqlclient.Status{InRecovery: true, Timeline: 1, Received: at, Receiver: &sqlclient.Receiver{State: "streaming"}}}
	}
	a.recordSample(receiving(time.Second, 100))
	a.own.WALGoneSince = 2 * time.Second
	a.recordSample(receiving(13*time.Second, 100))
	if a.streamedAt != time.Second || a.own.SampledAt != 13*time.Second || a.own.WALGoneSince == 0 {
		t.Errorf("it streamed at %s, was inspected at %s, WAL gone since %s", a.streamedAt, a.own.SampledAt, a.own.WALGoneSince)
	}
	if why := a.unready(election.Input{Now: 13 * time.Second}); why != "required WAL has been removed from the primary" {
		t.Errorf("it is not ready because %q", why)
	}
	a.recordSample(receiving(14*time.Second, 101))
	a.recordSample(receiving(15*time.Second, 101))
	if a.streamedAt != 15*time.Second || a.own.WALGoneSince != 0 {
		t.Errorf("it got further, streamed at %s, WAL gone since %s", a.streamedAt, a.own.WALGoneSince)
	}
}
