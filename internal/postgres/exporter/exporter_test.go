package exporter

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/sqlclient"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

// gather returns the values by metric and labels, as "name{label=value}".
func gather(t *testing.T, c *Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			name := strings.TrimPrefix(family.GetName(), namespace)
			if len(labels) > 0 {
				name += "{" + strings.Join(labels, ",") + "}"
			}
			values[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return values
}

func collector(t *testing.T, i *testpg.Instance) *Collector {
	t.Helper()
	c := New(Options{Connection: i.ClientOptions(), Timeout: time.Minute, Disk: func() (size, free int64, err error) {
		disk, err := i.Disk()
		return disk.Size, disk.Free, err
	}})
	t.Cleanup(func() { c.client.Close(context.WithoutCancel(t.Context())) })
	return c
}

func TestCollector_metrics(t *testing.T) {
	ca := testpg.NewCA(t)
	primary := ca.Primary(t, "shop-0")
	s := primary.Client(t)
	if _, err := s.EnsureSlots(t.Context(), []string{config.SlotName(1)}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.EnsureDatabase(t.Context(), sqlclient.Database{Name: "shop"}); err != nil {
		t.Fatal(err)
	}
	standby := ca.Standby(t, "shop-1", primary)
	deadline := time.Now().Add(time.Minute)
	c := collector(t, primary)
	got := gather(t, c)
	// Until version 15 the server updates its statistics with a delay.
	for (got["standby_streaming{standby=shop-1,sync_state=async}"] != 1 || got["checkpoints_total{reason=requested}"] == 0 ||
		got["transactions_committed_total{database=postgres}"] == 0) && time.Now().Before(deadline) {
		got = gather(t, c)
	}
	want := map[string]float64{
		"up": 1, "in_recovery": 0, "max_connections": 100, "exporter_errors_total": 0, "pending_restart_settings": 0, "slot_active{slot=fettle_1}": 0,
		"slot_lost{slot=fettle_1}": 0, "archive_enabled": 0, "archive_failed_total": 0, "standby_streaming{standby=shop-1,sync_state=async}": 1,
		"deadlocks_total{database=shop}": 0, "checksum_failures_total{database=postgres}": 0,
		"synchronous_required": 0, "synchronous_streaming": 0, "synchronous_waiting_sessions": 0,
	}
	positive := []string{
		"start_time_seconds", "connections{database=postgres,state=active}", "transactions_committed_total{database=postgres}", "database_size_bytes{database=shop}",
		"transaction_id_age{database=shop}", "wal_written_bytes_total", "slot_retained_bytes{slot=fettle_1}", "wal_files", "wal_size_bytes",
		"volume_size_bytes", "volume_free_bytes", "checkpoints_total{reason=requested}",
	}
	compare(t, got, want, positive)

	on := collector(t, standby)
	compare(t, gather(t, on), map[string]float64{"up": 1, "in_recovery": 1, "replay_lag_seconds": 0, "receiver_streaming": 1, "exporter_errors_total": 0},
		[]string{"wal_received_bytes_total", "wal_replayed_bytes_total"})
	standby.Stop(t)
	down := gather(t, on)
	compare(t, down, map[string]float64{"up": 0}, []string{"volume_free_bytes"})
	if _, ok := down["in_recovery"]; ok {
		t.Error("a server that is down has a role")
	}
}

// TestCollector_synchronous: a commit waits for a missing standby, and then for a streaming one.
func TestCollector_synchronous(t *testing.T) {
	ca := testpg.NewCA(t)
	primary := ca.Primary(t, "shop-0")
	ca.Standby(t, "shop-1", primary)
	c := collector(t, primary)
	configure := func(names ...string) {
		primary.Settings.Synchronous = &config.Synchronous{Number: 1, Names: names}
		primary.Configure(t)
		if err := primary.Client(t).WaitSetting(t.Context(), "synchronous_standby_names", primary.Settings.Synchronous.String()); err != nil {
			t.Fatal(err)
		}
	}
	configure("shop-7")
	options := primary.ClientOptions()
	options.StatementTimeout = time.Minute
	writer := sqlclient.New(options)
	defer writer.Close(t.Context())
	written := make(chan error, 1)
	go func() {
		_, err := writer.EnsureDatabase(t.Context(), sqlclient.Database{Name: "waiting"})
		written <- err
	}()
	eventually(t, c, map[string]float64{"synchronous_required": 1, "synchronous_streaming": 0, "synchronous_waiting_sessions": 1})
	configure("shop-1", "shop-7")
	eventually(t, c, map[string]float64{"synchronous_required": 1, "synchronous_streaming": 1, "synchronous_waiting_sessions": 0})
	if err := <-written; err != nil {
		t.Error(err)
	}
}

// eventually waits until the metrics have these values.
func eventually(t *testing.T, c *Collector, want map[string]float64) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		got := gather(t, c)
		if !slices.ContainsFunc(slices.Collect(maps.Keys(want)), func(name string) bool { value, ok := got[name]; return !ok || value != want[name] }) {
			return
		}
	}
	compare(t, gather(t, c), want, nil)
}

func compare(t *testing.T, got, want map[string]float64, positive []string) {
	t.Helper()
	for name, value := range want {
		if is, ok := got[name]; !ok || is != value {
			t.Errorf("%s: want %v, got %v (there: %v)", name, value, is, ok)
		}
	}
	for _, name := range positive {
		if got[name] <= 0 {
			t.Errorf("%s: %v", name, got[name])
		}
	}
}

// TestCollector_isNoSuperuser also checks that it can read all metrics.
func TestCollector_isNoSuperuser(t *testing.T) {
	ca := testpg.NewCA(t)
	i := ca.Primary(t, "shop-0")
	options := i.ClientOptions()
	options.User = config.MonitorUser
	c := sqlclient.New(options)
	defer c.Close(t.Context())
	if _, err := c.EnsureDatabase(t.Context(), sqlclient.Database{Name: "mine"}); err == nil {
		t.Error("it can write")
	}
	if err := c.Checkpoint(t.Context()); err == nil {
		t.Error("it can write checkpoints")
	}
	if problems, err := testutil.CollectAndLint(collector(t, i)); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// TestQueries_doNotOverlap: Prometheus rejects duplicate metrics.
func TestQueries_doNotOverlap(t *testing.T) {
	for major := config.MinMajor; major <= config.MaxMajor; major++ {
		for _, standby := range []bool{true, false} {
			seen := map[string]bool{}
			for _, q := range queries {
				for _, m := range q.metrics {
					if name := fmt.Sprint(m.desc); q.matches(major, standby) && seen[name] {
						t.Errorf("version %d, standby %v: %s twice", major, standby, name)
					} else if q.matches(major, standby) {
						seen[name] = true
					}
				}
			}
			if !seen[fmt.Sprint(describe("checkpoints_total", "Checkpoints, by reason: time (checkpoint_timeout) or requested (such as max_wal_size).", "reason"))] {
				t.Errorf("version %d: no checkpoints_total", major)
			}
		}
	}
}
