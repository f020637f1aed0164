package monitoring

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// Backup is the state of a Backup in metrics. What is zero has no series: an alert on absence can tell "never" from "long ago".
type Backup struct {
	LastSuccess time.Time
	// LastRunEnded says that a run has ended; LastRunSucceeded how the last one did.
	LastRunEnded, LastRunSucceeded bool
	Duration                       time.Duration
	SizeBytes                      int64
	// Interval is the time between two scheduled runs; 0 without a schedule.
	Interval  time.Duration
	Suspended bool
	// LastVerified is the end of the last verification that succeeded. VerificationEnded says that one has ended;
	// VerificationSucceeded how the last one did.
	LastVerified                             time.Time
	VerificationEnded, VerificationSucceeded bool
	// VerifyInterval is the time between two verifications; 0 without a schedule for them.
	VerifyInterval time.Duration
}

// backupMetrics are the series of each Backup, all gauges by namespace and name.
type backupMetrics struct {
	lastSuccess, lastStatus, duration, size, interval, suspended *prometheus.GaugeVec
	lastVerified, verifyStatus, verifyInterval                   *prometheus.GaugeVec
}

func newBackupMetrics(reg prometheus.Registerer) *backupMetrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"namespace", "name"})
		reg.MustRegister(g)
		return g
	}
	return &backupMetrics{
		lastSuccess: gauge("backup_last_success_timestamp_seconds", "When the last successful run of the Backup ended, as a Unix time; absent before the first."),
		lastStatus:  gauge("backup_last_status", "1 if the last run of the Backup succeeded, 0 if it failed; absent before the first has ended."),
		duration:    gauge("backup_duration_seconds", "Duration of the last successful run of the Backup."),
		size:        gauge("backup_size_bytes", "Size in the store of the last successful run of the Backup."),
		interval:    gauge("backup_schedule_interval_seconds", "Time between the next two scheduled runs of the Backup; absent without a schedule."),
		suspended:   gauge("backup_suspended", "1 if the schedule of the Backup is suspended or paused, otherwise 0."),
		lastVerified: gauge("backup_last_verified_timestamp_seconds",
			"When the last successful verification of the Backup ended, as a Unix time; absent before the first."),
		verifyStatus: gauge("backup_last_verification_status",
			"1 if the last verification of the Backup succeeded, 0 if it failed; absent before the first has ended."),
		verifyInterval: gauge("backup_verify_interval_seconds", "Time between the next two verifications of the Backup; absent without a schedule for them."),
	}
}

// BackupState sets the series of a Backup.
func (m *Metrics) BackupState(key types.NamespacedName, b Backup) {
	if m == nil {
		return
	}
	set := func(g *prometheus.GaugeVec, known bool, value float64) {
		if !known {
			g.DeleteLabelValues(key.Namespace, key.Name)
			return
		}
		g.WithLabelValues(key.Namespace, key.Name).Set(value)
	}
	flag := func(is bool) float64 {
		if is {
			return 1
		}
		return 0
	}
	succeeded := !b.LastSuccess.IsZero()
	set(m.backups.lastSuccess, succeeded, float64(b.LastSuccess.Unix()))
	set(m.backups.lastStatus, b.LastRunEnded, flag(b.LastRunSucceeded))
	set(m.backups.duration, succeeded, b.Duration.Seconds())
	set(m.backups.size, succeeded, float64(b.SizeBytes))
	set(m.backups.interval, b.Interval > 0, b.Interval.Seconds())
	set(m.backups.suspended, true, flag(b.Suspended))
	set(m.backups.lastVerified, !b.LastVerified.IsZero(), float64(b.LastVerified.Unix()))
	set(m.backups.verifyStatus, b.VerificationEnded, flag(b.VerificationSucceeded))
	set(m.backups.verifyInterval, b.VerifyInterval > 0, b.VerifyInterval.Seconds())
}

func (b *backupMetrics) forget(key types.NamespacedName) {
	for _, g := range []*prometheus.GaugeVec{b.lastSuccess, b.lastStatus, b.duration, b.size, b.interval, b.suspended, b.lastVerified, b.verifyStatus, b.verifyInterval} {
		g.DeleteLabelValues(key.Namespace, key.Name)
	}
}
