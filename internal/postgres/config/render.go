package config

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const header = "# Written by Fettle. Changes are overwritten: use spec.parameters of the PostgreSQL object.\n"

// logFields start each log line, after the token and separated by spaces: time, PID, backend type, SQLSTATE, user, database
// and client.
const logFields = "%m [%p] %b %e"

// Render renders the files. The error says which setting is invalid. The user's parameters are validated like
// CheckParameters.
func Render(s Settings) (Files, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	hba, err := renderHBA(s.HBA)
	if err != nil {
		return nil, err
	}
	ident, err := renderIdent(s.SystemUsers)
	if err != nil {
		return nil, err
	}
	conf, err := renderConf(s)
	if err != nil {
		return nil, err
	}
	return Files{ConfFile: conf, HBAFile: hba, IdentFile: ident}, nil
}

var (
	instanceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$`)
	logToken     = regexp.MustCompile(`^[A-Za-z0-9]{0,64}$`)
	slotName     = regexp.MustCompile(`^[a-z0-9_]{0,63}$`)
)

// check validates Fettle's own settings. The user's parts are validated where they are rendered.
func (s Settings) check() error {
	if err := CheckParameters(s.Major, s.Parameters); err != nil {
		return err
	}
	if s.Synchronous != nil && len(s.Synchronous.Names) > 0 {
		if err := s.Synchronous.check(s.Parameters); err != nil {
			return err
		}
	}
	for what, path := range map[string]string{"data": s.DataDir, "configuration": s.ConfigDir, "socket": s.SocketDir} {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("the %s directory %q must be an absolute path", what, path)
		}
	}
	if !instanceName.MatchString(s.ClusterName) {
		return fmt.Errorf("instance name %q is not a pod name", s.ClusterName)
	}
	if !logToken.MatchString(s.LogToken) {
		return fmt.Errorf("the log token must consist of letters and digits")
	}
	if s.Upstream != nil && !slotName.MatchString(s.Upstream.Slot) {
		return fmt.Errorf("%q is not a slot name", s.Upstream.Slot)
	}
	return nil
}

func (q Synchronous) check(wanted map[string]string) error {
	if err := CheckSynchronous(wanted); err != nil {
		return err
	}
	if q.Number < 1 {
		return fmt.Errorf("synchronous replication waits for %d standbys: use at least 1", q.Number)
	}
	for _, name := range q.Names {
		if !instanceName.MatchString(name) {
			return fmt.Errorf("standby name %q is not a pod name", name)
		}
	}
	return nil
}

func renderConf(s Settings) (string, error) {
	values := s.defaults()
	maps.Copy(values, lowerNames(s.Parameters))
	s.Minimums.raise(values)
	s.raiseWALSizes(values)
	maps.Copy(values, s.fixedSettings())
	var out strings.Builder
	out.WriteString(header)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if _, known := lookup(s.Major, name); !known && !strings.Contains(name, ".") {
			continue // one of Fettle's settings, for another version
		}
		quoted, err := quote(values[name])
		if err != nil {
			return "", fmt.Errorf("setting %s: %w", name, err)
		}
		fmt.Fprintf(&out, "%s = %s\n", name, quoted)
	}
	return out.String(), nil
}

// raiseWALSizes raises values with which a server with large WAL segments would not start.
func (s Settings) raiseWALSizes(values map[string]string) {
	least := minWALSize(int(s.WALSegment / miB))
	for _, name := range []string{"max_wal_size", "min_wal_size"} {
		if numberOr(s.Major, values, name, least) < least {
			values[name] = formatNumber(least) + "MB"
		}
	}
}

// raise raises values below the minimums. A missing value has the server's default.
func (m Minimums) raise(values map[string]string) {
	for _, p := range []struct {
		name         string
		least, usual int
	}{
		{"max_connections", m.MaxConnections, 100}, {"max_worker_processes", m.MaxWorkerProcesses, 8}, {"max_wal_senders", m.MaxWALSenders, 10},
		{"max_prepared_transactions", m.MaxPreparedTransactions, 0}, {"max_locks_per_transaction", m.MaxLocksPerTransaction, 64},
	} {
		wanted := p.usual
		if value, set := values[p.name]; set {
			wanted, _ = strconv.Atoi(value) // it has been checked
		}
		if p.least > wanted {
			values[p.name] = strconv.Itoa(p.least)
		}
	}
}

// quote quotes a value for postgresql.conf.
func quote(text string) (string, error) {
	if strings.ContainsAny(text, "\n\r\x00") {
		return "", fmt.Errorf("the value %q contains a control character: use one line", text)
	}
	return "'" + strings.NewReplacer(`'`, `''`, `\`, `\\`).Replace(text) + "'", nil
}

// fixedSettings are the settings that only Fettle controls.
func (s Settings) fixedSettings() map[string]string {
	values := map[string]string{
		"data_directory":               s.DataDir,
		"hba_file":                     filepath.Join(s.ConfigDir, HBAFile),
		"ident_file":                   filepath.Join(s.ConfigDir, IdentFile),
		"listen_addresses":             cmp.Or(s.ListenAddresses, "*"),
		"port":                         strconv.Itoa(cmp.Or(s.Port, 5432)),
		"unix_socket_directories":      s.SocketDir,
		"unix_socket_permissions":      "0700",
		"cluster_name":                 s.ClusterName,
		"hot_standby":                  "on",
		"wal_receiver_status_interval": "1s",
		"wal_log_hints":                "on",
		"fsync":                        "on",
		"full_page_writes":             "on",
		"restart_after_crash":          "off",
		"recovery_target_timeline":     "latest",
		"primary_conninfo":             s.Upstream.ConnInfo(s.ClusterName),
		"primary_slot_name":            s.Upstream.slot(),
		"synchronous_standby_names":    s.Synchronous.String(),
		"archive_mode":                 s.archiveMode(),
		"archive_command":              s.ArchiveCommand,
		"restore_command":              s.RestoreCommand,
		"password_encryption":          "scram-sha-256",
		"allow_alter_system":           "off",
		"logging_collector":            "off",
		"log_destination":              "stderr",
		"log_line_prefix":              s.logPrefix(),
		"log_timezone":                 "UTC",
		"lc_messages":                  "C",
		"shared_memory_type":           "mmap",
		"dynamic_shared_memory_type":   "posix",
	}
	maps.Copy(values, s.TLS.settings())
	return values
}

// logPrefix includes user, database and client only if the token protects against forged lines.
func (s Settings) logPrefix() string {
	if s.LogToken == "" {
		return logFields + " "
	}
	return s.LogToken + " " + logFields + " %q%u@%d %h "
}

func (t TLS) settings() map[string]string {
	if t.CertFile == "" {
		return map[string]string{"ssl": "off"}
	}
	return map[string]string{
		"ssl": "on", "ssl_cert_file": t.CertFile, "ssl_key_file": t.KeyFile, "ssl_ca_file": t.CAFile,
		"ssl_min_protocol_version":  "TLSv1.2",
		"ssl_prefer_server_ciphers": "on",
		"ssl_ciphers":               "HIGH:!aNULL:!MD5:!3DES",
	}
}

// String is the value of synchronous_standby_names.
func (q *Synchronous) String() string {
	if q == nil || len(q.Names) == 0 {
		return ""
	}
	return fmt.Sprintf("ANY %d (\"%s\")", q.Number, strings.Join(q.Names, `","`))
}

// archiveMode makes standbys keep each segment until the archive has it, since one of them may become the primary first.
func (s Settings) archiveMode() string {
	if s.ArchiveCommand == "" {
		return "off"
	}
	return "always"
}
