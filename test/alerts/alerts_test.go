package alerts

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// scenario has scraped series and the expected alerts of one rule.
type scenario struct {
	rule   string // its name and severity
	series []string
	// quiet are times at which the alert does not fire. The last one is shortly before it fires.
	quiet []time.Duration
	// fires is when it fires. want are the labels of each alert except job and namespace.
	fires time.Duration
	want  []string
}

const golden = "../../internal/monitoring/alerts/testdata/"

// TestAlerts evaluates every rule with Prometheus, at times when it fires and when it does not.
func TestAlerts(t *testing.T) {
	all := map[string]rule{}
	for _, path := range []string{golden + "growing.golden.yaml", golden + "fixed.golden.yaml", "../../config/prometheus/rules.yaml"} {
		for _, r := range rulesOf(t, path) {
			all[r.id()] = r // of two, the one without spec.autoGrow
		}
	}
	tested := map[string]bool{}
	for _, s := range slices.Concat(ofInstances, ofReplication, ofVolumes, ofServers, ofArchiving, ofOperator, ofBackups) {
		tested[s.rule] = true
		t.Run(s.rule, func(t *testing.T) {
			r, ok := all[s.rule]
			if !ok {
				t.Fatal("there is no such rule")
			}
			s.run(t, &r)
		})
	}
	for id := range all {
		if !tested[id] {
			t.Errorf("no scenario for %s", id)
		}
	}
}

func (s *scenario) run(t *testing.T, r *rule) {
	w, engine := scrape(t, s.series), newEngine(t)
	for _, at := range s.quiet {
		if got := w.firing(t, engine, r, at); len(got) > 0 {
			t.Errorf("fires at %s: %v", at, got)
		}
	}
	firing := w.firing(t, engine, r, s.fires)
	var got []string
	for _, set := range firing {
		got = append(got, brief(set))
		templates(t, r, set)
	}
	slices.Sort(got)
	if !slices.Equal(got, s.want) {
		t.Errorf("at %s fires for %q, want %q", s.fires, got, s.want)
	}
}

// templates checks that the alert has each label that an annotation uses.
func templates(t *testing.T, r *rule, set map[string]string) {
	t.Helper()
	for name, text := range r.Annotations {
		for _, m := range regexp.MustCompile(`\$labels\.([a-z_]+)`).FindAllStringSubmatch(text, -1) {
			if set[m[1]] == "" && r.Labels[m[1]] == "" {
				t.Errorf("%s: %s names the label %s, which the alert has not", r.id(), name, m[1])
			}
		}
		if strings.Count(text, "{{") != strings.Count(text, "}}") {
			t.Errorf("%s: %s: %q", r.id(), name, text)
		}
	}
}

// TestHibernated: no alert fires for a hibernated PostgreSQL.
func TestHibernated(t *testing.T) {
	engine := newEngine(t)
	for _, r := range rulesOf(t, golden+"hibernated.golden.yaml") {
		if got := (fixture{}).firing(t, engine, &r, time.Hour); len(got) > 0 {
			t.Errorf("%s fires although the PostgreSQL is hibernated: %v", r.Alert, got)
		}
	}
}

// TestHealthy: no alert fires for three healthy instances.
func TestHealthy(t *testing.T) {
	lines := []string{
		`fettle_agent_is_primary/orders-0 1x300`, `fettle_agent_is_primary/orders-1 0x300`, `fettle_agent_is_primary/orders-2 0x300`,
		`fettle_postgresql_synchronous_required/orders-0 1x300`, `fettle_postgresql_synchronous_streaming/orders-0 2x300`,
		`fettle_postgresql_transaction_id_age/orders-0/database="a" 200000000x300`,
	}
	for _, pod := range []string{"orders-0", "orders-1", "orders-2"} {
		standby := "1"
		if pod == "orders-0" {
			standby = "0"
		} else {
			lines = append(lines, `fettle_postgresql_receiver_streaming/`+pod+` 1x300`, `fettle_postgresql_replay_lag_seconds/`+pod+` 1x300`,
				`fettle_postgresql_standby_flush_lag_bytes/orders-0/standby="`+pod+`" 16000x300`)
		}
		lines = append(lines,
			`up/`+pod+` 1x300`, `fettle_postgresql_up/`+pod+` 1x300`, `fettle_postgresql_in_recovery/`+pod+` `+standby+`x300`,
			`fettle_agent_wal_unavailable/`+pod+` 0x300`, `fettle_postgresql_archiving_failed/`+pod+` 0x300`, `fettle_postgresql_archiving_waiting_segments/`+pod+` 1x300`,
			`fettle_postgresql_archiving_last_success_timestamp_seconds/`+pod+` 1767225600+30x300`, `fettle_agent_writes_rejected/`+pod+` 0x300`, `fettle_agent_timeline/`+pod+` 3x300`, `fettle_agent_api_reachable/`+pod+` 1x300`, `fettle_agent_lease_errors_total/`+pod+` 2x300`,
			`fettle_postgresql_volume_size_bytes/`+pod+` 1000000000x300`, `fettle_postgresql_volume_free_bytes/`+pod+` 700000000-10000x300`,
			`fettle_postgresql_connections/`+pod+`/state="idle" 40x300`, `fettle_postgresql_max_connections/`+pod+` 100x300`,
			`fettle_agent_work_failures_total/`+pod+`/work="clone" 1x300`, `fettle_agent_crashes_total/`+pod+` 1x300`,
			`fettle_agent_certificate_start_timestamp_seconds/`+pod+`/certificate="server" 1761782400x300`,
			`fettle_agent_certificate_expiry_timestamp_seconds/`+pod+`/certificate="server" 1769558400x300`,
		)
	}
	w, engine := scrape(t, lines), newEngine(t)
	for _, r := range rulesOf(t, golden+"fixed.golden.yaml") {
		for _, at := range []time.Duration{2 * time.Minute, 30 * time.Minute, 140 * time.Minute} {
			if got := w.firing(t, engine, &r, at); len(got) > 0 {
				t.Errorf("%s fires at %s: %v", r.id(), at, got)
			}
		}
	}
}
