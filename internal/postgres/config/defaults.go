package config

import (
	"fmt"
	"strconv"
)

const (
	kiB = 1 << 10
	miB = 1 << 20
	giB = 1 << 30
)

// defaults are the default values that a user may override.
func (s Settings) defaults() map[string]string {
	slots := strconv.Itoa(max(16, 2*s.Instances+8))
	values := map[string]string{
		"max_connections":                "100",
		"superuser_reserved_connections": "5",
		"wal_level":                      "replica",
		"max_wal_senders":                slots,
		"max_replication_slots":          slots,
		"wal_keep_size":                  "256MB",
		"wal_sender_timeout":             "5s",
		"wal_receiver_timeout":           "5s",
		"wal_retrieve_retry_interval":    "200ms", // the delay of a standby that connects before its new primary is ready
		"hot_standby_feedback":           "off",
		"tcp_keepalives_idle":            "30",
		"tcp_keepalives_interval":        "10",
		"tcp_keepalives_count":           "3",
		"tcp_user_timeout":               "60000",
		"huge_pages":                     "off", // on nodes with huge pages a pod without a request for them would crash
		"checkpoint_timeout":             "5min",
		"checkpoint_completion_target":   "0.9",
		"wal_compression":                "on",
		"random_page_cost":               "1.1",
		"effective_io_concurrency":       "200",
		"log_checkpoints":                "on",
		"log_lock_waits":                 "on",
		"log_autovacuum_min_duration":    "10s",
		"log_temp_files":                 "10MB",
		"timezone":                       "UTC",
		"datestyle":                      "ISO, MDY",
		"default_text_search_config":     "pg_catalog.english",
		"track_io_timing":                "on",
	}
	if s.ArchiveTimeout > 0 {
		values["archive_timeout"] = strconv.Itoa(s.ArchiveTimeout)
	}
	s.memory(values)
	s.volume(values)
	return values
}

// memory derives memory settings from the container's limit: a quarter for shared_buffers, the rest for sessions and
// maintenance. Usual loads stay below the limit.
func (s Settings) memory(values map[string]string) {
	if s.MemoryLimit <= 0 {
		values["shared_buffers"] = "128MB"
		return
	}
	buffers := max(s.MemoryLimit/4, 16*miB)
	values["shared_buffers"] = kilobytes(buffers)
	values["effective_cache_size"] = kilobytes(max(s.MemoryLimit*5/8, 16*miB))
	values["maintenance_work_mem"] = kilobytes(min(max(s.MemoryLimit/16, 4*miB), 2*giB))
	values["autovacuum_work_mem"] = kilobytes(min(max(s.MemoryLimit/32, 4*miB), giB))
	values["work_mem"] = kilobytes(min(max((s.MemoryLimit-buffers)/(3*s.connections()), miB), 256*miB))
}

func (s Settings) connections() int64 {
	value, ok := lowerNames(s.Parameters)["max_connections"]
	n, err := strconv.ParseInt(value, 10, 64)
	if !ok || err != nil || n < 1 {
		return 100
	}
	return n
}

// volume limits WAL on the volume: a tenth in normal operation, and a fifth for the slot of a standby that is gone.
func (s Settings) volume(values map[string]string) {
	if s.VolumeSize <= 0 {
		values["max_wal_size"], values["min_wal_size"] = "1GB", "80MB"
		values["max_slot_wal_keep_size"] = "4GB"
		return
	}
	values["max_wal_size"] = megabytes(min(max(s.VolumeSize/10, 96*miB), 8*giB))
	values["min_wal_size"] = megabytes(min(max(s.VolumeSize/40, 48*miB), giB))
	values["max_slot_wal_keep_size"] = megabytes(max(s.VolumeSize/5, 128*miB))
	values["wal_keep_size"] = megabytes(min(max(s.VolumeSize/20, 32*miB), 512*miB))
}

func kilobytes(n int64) string { return fmt.Sprintf("%dkB", n/kiB) }

func megabytes(n int64) string { return fmt.Sprintf("%dMB", n/miB) }
