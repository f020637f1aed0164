package sqlclient

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fettle-dev/fettle/internal/postgres/config"
)

// rewindFunctions are the functions that pg_rewind calls on its source.
var rewindFunctions = []string{
	"pg_ls_dir(text, boolean, boolean)", "pg_stat_file(text, boolean)",
	"pg_read_binary_file(text)", "pg_read_binary_file(text, bigint, bigint, boolean)",
}

// ownRoles are Fettle's roles. They have no passwords.
var ownRoles = []Role{
	{Name: config.ReplicationUser, Login: true, Replication: true},
	{Name: config.MonitorUser, Login: true, MemberOf: []string{"pg_monitor"}},
}

// Prepare creates Fettle's roles on a primary (see package config), with the privileges that pg_rewind needs. It writes
// nothing if they exist.
func (c *Client) Prepare(ctx context.Context) error {
	_, err := c.ensureRoles(ctx, ownRoles)
	if err == nil {
		err = c.withConn(ctx, func(conn *pgx.Conn) error { return grantRewind(ctx, conn) })
	}
	if err != nil {
		return fmt.Errorf("prepare the server: %w", err)
	}
	return nil
}

func grantRewind(ctx context.Context, conn *pgx.Conn) error {
	for _, function := range rewindFunctions {
		var granted bool
		if err := conn.QueryRow(ctx, "SELECT has_function_privilege($1, $2, 'EXECUTE')", config.ReplicationUser, function).Scan(&granted); err != nil {
			return err
		}
		if granted {
			continue
		}
		if err := execScript(ctx, conn, "GRANT EXECUTE ON FUNCTION "+function+" TO "+identifier(config.ReplicationUser)); err != nil {
			return err
		}
	}
	return nil
}
