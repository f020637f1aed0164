package sqlclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

// Login is a second login for a role with its own password, named by config.SecondLogin. Its sessions act as the role from
// their first statement on, have the role's settings, and the role owns the objects that they create.
type Login struct {
	// Role is the role that the login acts as.
	Role string
	// Verifier comes from scram.Verifier. "" leaves the password unchanged, and does not create a missing login.
	Verifier string
	// Allowed is false to disable the login. It is not dropped.
	Allowed bool
	// ConnectionLimit limits the login's sessions, in addition to those of the role. nil means no limit.
	ConnectionLimit *int
}

// minMinorVersion are the first minor versions in which a login fully acts as a role. In earlier ones DISCARD ALL, which
// connection poolers send, resets the role, and one release of each major version ignores the role setting.
var minMinorVersion = map[int]int{13: 18, 14: 15, 15: 10, 16: 6, 17: 2}

// checkVersion checks a server_version_num.
func checkVersion(number int) error {
	major, minor := number/10000, number%10000
	if first, old := minMinorVersion[major]; old && minor < first {
		return fmt.Errorf("PostgreSQL %d.%d does not support a second login, which password rotation without failed logins needs: use version %d.%d or later",
			major, minor, major, first)
	}
	return nil
}

// EnsureLogin creates a second login with the settings of its role. It returns what it changed, and sends only statements
// that change something. The role must exist.
func (c *Client) EnsureLogin(ctx context.Context, l Login) ([]string, error) {
	role := Role{
		Name: config.SecondLogin(l.Role), Verifier: l.Verifier, Login: l.Allowed, ConnectionLimit: l.ConnectionLimit, MemberOf: []string{l.Role},
	}
	if err := errors.Join((Role{Name: l.Role}).Check(), role.Check()); err != nil {
		return nil, err
	}
	var changes []string
	err := c.withConn(ctx, func(conn *pgx.Conn) error {
		changes = nil
		there, err := readRoles(ctx, conn, []Role{role})
		if err != nil {
			return err
		}
		is, found := there[role.Name]
		if !found && (l.Verifier == "" || !l.Allowed) {
			return nil
		}
		var version int
		if err := conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::int").Scan(&version); err != nil {
			return err
		}
		if err := checkVersion(version); err != nil {
			return err
		}
		settings, err := readSettings(ctx, conn, []string{l.Role, role.Name})
		if err != nil {
			return err
		}
		statements := append(role.statements(is, found), settingStatements(l.Role, settings)...)
		if len(statements) == 0 {
			return nil
		}
		if err := execScript(ctx, conn, strings.Join(statements, ";\n")); err != nil {
			return err
		}
		changes = []string{changeVerb(found) + " login " + role.Name}
		return nil
	})
	if err != nil {
		return changes, fmt.Errorf("login %q: %w", role.Name, err)
	}
	return changes, nil
}

// SyncLogins copies the current settings of the roles to their second logins. It returns what it changed.
func (c *Client) SyncLogins(ctx context.Context) ([]string, error) {
	var changes []string
	err := c.withConn(ctx, func(conn *pgx.Conn) error {
		changes = nil
		rows, err := conn.Query(ctx, `SELECT g.rolname::text, b.rolname::text FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid
JOIN pg_roles b ON b.oid = m.member WHERE b.rolname::text LIKE 'fettle\_%' GROUP BY 1, 2 ORDER BY 1, 2`)
		if err != nil {
			return err
		}
		var of, names []string
		var role, login string
		if _, err := pgx.ForEachRow(rows, []any{&role, &login}, func() error {
			if login == config.SecondLogin(role) {
				of, names = append(of, role), append(names, role, login)
			}
			return nil
		}); err != nil || len(of) == 0 {
			return err
		}
		settings, err := readSettings(ctx, conn, names)
		if err != nil {
			return err
		}
		for _, role := range of {
			statements := settingStatements(role, settings)
			if len(statements) == 0 {
				continue
			}
			if err := execScript(ctx, conn, strings.Join(statements, ";\n")); err != nil {
				return fmt.Errorf("login %q: %w", config.SecondLogin(role), err)
			}
			changes = append(changes, "changed login "+config.SecondLogin(role))
		}
		return nil
	})
	if err != nil {
		return changes, fmt.Errorf("sync settings of logins: %w", err)
	}
	return changes, nil
}

// settingKey identifies a setting of a role: a parameter in one database, or in all if database is "".
type settingKey struct{ database, name string }

// readSettings returns the settings of ALTER ROLE SET, by role.
func readSettings(ctx context.Context, conn *pgx.Conn, roles []string) (map[string]map[settingKey]string, error) {
	rows, err := conn.Query(ctx, `SELECT r.rolname::text, coalesce(d.datname::text, ''), s.setconfig FROM pg_db_role_setting s
JOIN pg_roles r ON r.oid = s.setrole LEFT JOIN pg_database d ON d.oid = s.setdatabase WHERE r.rolname = ANY ($1::text[])`, roles)
	if err != nil {
		return nil, err
	}
	all := map[string]map[settingKey]string{}
	var role, database string
	var settings []string
	_, err = pgx.ForEachRow(rows, []any{&role, &database, &settings}, func() error {
		if all[role] == nil {
			all[role] = map[settingKey]string{}
		}
		for _, setting := range settings {
			name, value, _ := strings.Cut(setting, "=")
			all[role][settingKey{database, name}] = value
		}
		settings = nil
		return nil
	})
	return all, err
}

// settingStatements copy the settings of a role to its second login, and make the login act as the role.
func settingStatements(role string, all map[string]map[settingKey]string) []string {
	login := config.SecondLogin(role)
	is, wanted := all[login], maps.Clone(all[role])
	if wanted == nil {
		wanted = map[settingKey]string{}
	}
	if _, other := wanted[settingKey{"", "role"}]; !other {
		wanted[settingKey{"", "role"}] = role
	}
	var statements []string
	for _, at := range sorted(wanted) {
		if value, there := is[at]; !there || value != wanted[at] {
			statements = append(statements, alterLogin(login, at)+" SET "+parameter(at.name)+" TO "+settingValue(at.name, wanted[at]))
		}
	}
	for _, at := range sorted(is) {
		if _, kept := wanted[at]; !kept {
			statements = append(statements, alterLogin(login, at)+" RESET "+parameter(at.name))
		}
	}
	return statements
}

func sorted(settings map[settingKey]string) []settingKey {
	return slices.SortedFunc(maps.Keys(settings), func(a, b settingKey) int {
		return cmp.Or(strings.Compare(a.database, b.database), strings.Compare(a.name, b.name))
	})
}

func alterLogin(login string, at settingKey) string {
	statement := "ALTER ROLE " + identifier(login)
	if at.database != "" {
		statement += " IN DATABASE " + identifier(at.database)
	}
	return statement
}

// parameter quotes the name of a parameter, which may have a prefix.
func parameter(name string) string { return pgx.Identifier(strings.Split(name, ".")).Sanitize() }

// listParameters are the parameters with lists of names. PostgreSQL stores their values with quotes where a name needs
// them.
var listParameters = []string{
	"local_preload_libraries", "search_path", "session_preload_libraries", "shared_preload_libraries", "temp_tablespaces", "unix_socket_directories",
}

// settingValue formats a stored value for a statement.
func settingValue(name, value string) string {
	if !slices.Contains(listParameters, strings.ToLower(name)) {
		return literal(value)
	}
	var out []string
	for _, item := range splitNames(value) {
		out = append(out, literal(item))
	}
	return strings.Join(out, ", ")
}

// splitNames splits a list of names. A name in double quotes is literal, with "" for one double quote.
func splitNames(list string) []string {
	var names []string
	var name strings.Builder
	inside := false
	for i := 0; i < len(list); i++ {
		switch {
		case list[i] == '"' && inside && i+1 < len(list) && list[i+1] == '"':
			name.WriteByte('"')
			i++
		case list[i] == '"':
			inside = !inside
		case !inside && list[i] == ',':
			names = append(names, name.String())
			name.Reset()
		case !inside && list[i] == ' ':
		default:
			name.WriteByte(list[i])
		}
	}
	return append(names, name.String())
}

// InsertLSN is the current WAL insert position. All earlier commits are before it.
func (c *Client) InsertLSN(ctx context.Context) (wal.LSN, error) {
	return queryValue[wal.LSN](ctx, c, "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::int8")
}
