package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// fill creates and fills pgbench's tables.
func (t *pgTarget) fill(ctx context.Context) error {
	_, err := t.pgbench(ctx, "--initialize", "--quiet", "--scale="+strconv.Itoa(pgScale))
	return err
}

// run starts from a checkpoint, so each run starts with the same amount of WAL.
func (t *pgTarget) run(ctx context.Context) (float64, error) {
	err := t.withConn(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "CHECKPOINT")
		return err
	})
	if err != nil {
		return 0, err
	}
	output, err := t.pgbench(ctx, "--client="+strconv.Itoa(pgClients), "--jobs=2", "--time="+strconv.Itoa(int(pgEach.Seconds())))
	if err != nil {
		return 0, err
	}
	return parsePgbench(output)
}

func (t *pgTarget) pgbench(ctx context.Context, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, filepath.Join(pgBinaries, "pgbench"), append(arguments, t.dsn())...)
	command.Env = append(os.Environ(), "PGPASSWORD="+t.password)
	output, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("pgbench against %s: %w: %s", t.about, err, output)
	}
	return string(output), nil
}

var tpsLine = regexp.MustCompile(`(?m)^tps = ([0-9.]+) \(without initial connection time\)$`)

// parsePgbench returns the transactions per second, without the time to connect.
func parsePgbench(output string) (float64, error) {
	found := tpsLine.FindStringSubmatch(output)
	if found == nil {
		return 0, fmt.Errorf("pgbench's output has no line %s:\n%s", tpsLine, output)
	}
	return strconv.ParseFloat(found[1], 64)
}

// withConn opens a session, which ends with f.
func (t *pgTarget) withConn(ctx context.Context, f func(*pgx.Conn) error) error {
	config, err := pgx.ParseConfig(t.dsn())
	if err != nil {
		return fmt.Errorf("%s: %w", t.about, err)
	}
	config.Password = t.password
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("%s: %w", t.about, err)
	}
	defer func() { _ = conn.Close(ctx) }() // all results have been read
	if err := f(conn); err != nil {
		return fmt.Errorf("%s: %w", t.about, err)
	}
	return nil
}

// ownSettings are settings with the address and the name of a server; all others must be equal.
var ownSettings = []string{
	"archive_command", "cluster_name", "config_file", "data_directory", "external_pid_file", "hba_file", "ident_file", "listen_addresses", "port",
	"primary_conninfo", "ssl_ca_file", "ssl_cert_file", "ssl_crl_dir", "ssl_crl_file", "ssl_key_file", "unix_socket_directories", "unix_socket_group",
	"unix_socket_permissions", "application_name", "log_line_prefix",
}

// settings returns all settings of the server by name, except its ownSettings.
func (t *pgTarget) settings(ctx context.Context, query string) (map[string]string, error) {
	all := map[string]string{}
	err := t.withConn(ctx, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, query, ownSettings)
		if err != nil {
			return err
		}
		var name, value string
		_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error {
			all[name] = value
			return nil
		})
		return err
	})
	return all, err
}

const (
	everySetting    = "SELECT name, setting FROM pg_settings WHERE name <> ALL ($1)"
	writtenSettings = "SELECT name, current_setting(name) FROM pg_settings WHERE source = 'configuration file' AND name <> ALL ($1)"
)

// sameSettings returns an error that names the settings in which two servers differ.
func sameSettings(ctx context.Context, a, b pgTarget) error {
	ofA, err := a.settings(ctx, everySetting)
	if err != nil {
		return err
	}
	ofB, err := b.settings(ctx, everySetting)
	if err != nil {
		return err
	}
	if different := differences(ofA, ofB); len(different) > 0 {
		return fmt.Errorf("%s and %s cannot be compared, because their settings differ: %s", a.about, b.about, strings.Join(different, "; "))
	}
	return nil
}

// differences names the keys with different values.
func differences(a, b map[string]string) []string {
	names := maps.Clone(a)
	maps.Copy(names, b)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if a[name] != b[name] {
			out = append(out, fmt.Sprintf("%s is %q and %q", name, a[name], b[name]))
		}
	}
	return out
}
