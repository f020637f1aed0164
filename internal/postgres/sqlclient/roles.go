package sqlclient

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fettle-dev/fettle/internal/postgres/config"
)

// Role is a desired role. It is never a superuser.
type Role struct {
	Name string
	// Verifier comes from scram.Verifier. "" leaves the password unchanged.
	Verifier string
	// Login, CreateDB and Replication are the attributes of the role. All other attributes are removed.
	Login, CreateDB, Replication bool
	// ConnectionLimit is the maximum number of sessions. nil means no limit.
	ConnectionLimit *int
	// MemberOf are the roles that it is a member of. nil leaves memberships unchanged, otherwise others are revoked.
	MemberOf []string
}

// reservedRoles are used by Fettle.
var reservedRoles = []string{config.Superuser, config.ReplicationUser, config.MonitorUser, "public", "none"}

// privilegedRoles are predefined roles whose members can escape the database: they access the server's files, run programs
// as its user, or can become superuser that way. Members of pg_maintain can lock every table, including pg_authid, which
// every new session reads. A prepared transaction would hold that lock across failovers.
var privilegedRoles = []string{
	config.Superuser, config.ReplicationUser, "pg_execute_server_program", "pg_maintain", "pg_read_server_files", "pg_write_server_files",
}

var verifierForm = regexp.MustCompile(`^SCRAM-SHA-256\$[0-9]{1,9}:[A-Za-z0-9+/=]{4,128}\$[A-Za-z0-9+/=]{44}:[A-Za-z0-9+/=]{44}$`)

// Check validates a role.
func (r Role) Check() error {
	if err := config.CheckName(r.Name); err != nil {
		return fmt.Errorf("role: %w", err)
	}
	if slices.Contains(reservedRoles, r.Name) || strings.HasPrefix(r.Name, "pg_") {
		return fmt.Errorf("role name %q is reserved by PostgreSQL or Fettle: use another name", r.Name)
	}
	if r.Verifier != "" && !verifierForm.MatchString(r.Verifier) {
		return fmt.Errorf("role %q: the password is not a SCRAM-SHA-256 verifier", r.Name)
	}
	for _, other := range r.MemberOf {
		if err := config.CheckName(other); err != nil {
			return fmt.Errorf("role %q, member of: %w", r.Name, err)
		}
		if slices.Contains(privilegedRoles, other) {
			return fmt.Errorf("role %q: membership in %s would allow access to files, programs or all locks of the server: grant a narrower role", r.Name, other)
		}
	}
	return nil
}

// limit is rolconnlimit.
func (r Role) limit() int {
	if r.ConnectionLimit == nil {
		return -1
	}
	return *r.ConnectionLimit
}

// EnsureRoles creates and changes roles, each in a transaction. It returns what it changed, and sends only statements that
// change something. Other roles are left unchanged.
func (c *Client) EnsureRoles(ctx context.Context, wanted []Role) ([]string, error) {
	var errs []error
	for _, r := range wanted {
		errs = append(errs, r.Check())
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return c.ensureRoles(ctx, wanted)
}

func (c *Client) ensureRoles(ctx context.Context, wanted []Role) ([]string, error) {
	var changes []string
	err := c.withConn(ctx, func(conn *pgx.Conn) error {
		changes = nil
		there, err := readRoles(ctx, conn, wanted)
		if err != nil {
			return err
		}
		for _, r := range wanted {
			is, found := there[r.Name]
			statements := r.statements(is, found)
			if len(statements) == 0 {
				continue
			}
			if err := execScript(ctx, conn, strings.Join(statements, ";\n")); err != nil {
				return fmt.Errorf("role %q: %w", r.Name, err)
			}
			changes = append(changes, changeVerb(found)+" role "+r.Name)
		}
		return nil
	})
	if err != nil {
		return changes, fmt.Errorf("apply roles: %w", err)
	}
	return changes, nil
}

func changeVerb(found bool) string {
	if found {
		return "changed"
	}
	return "created"
}

// currentRole is a role as it is in the server.
type currentRole struct {
	Role
	// extraPrivileges is true if the role has attributes that desired roles never have, or NOINHERIT.
	extraPrivileges bool
	groups          []string
}

func readRoles(ctx context.Context, conn *pgx.Conn, wanted []Role) (map[string]currentRole, error) {
	names := make([]string, 0, len(wanted))
	for _, r := range wanted {
		names = append(names, r.Name)
	}
	rows, err := conn.Query(ctx, `
SELECT a.rolname::text, coalesce(a.rolpassword, ''), a.rolcanlogin, a.rolcreatedb, a.rolreplication, a.rolconnlimit,
  a.rolsuper OR a.rolcreaterole OR a.rolbypassrls OR NOT a.rolinherit,
  ARRAY(SELECT g.rolname::text FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid WHERE m.member = a.oid ORDER BY 1)
FROM pg_authid a WHERE a.rolname = ANY ($1::text[])`, names)
	if err != nil {
		return nil, err
	}
	roles := map[string]currentRole{}
	var r currentRole
	var limit int
	_, err = pgx.ForEachRow(rows, []any{&r.Name, &r.Verifier, &r.Login, &r.CreateDB, &r.Replication, &limit, &r.extraPrivileges, &r.groups}, func() error {
		r.ConnectionLimit = new(limit)
		roles[r.Name] = r
		r.groups = nil
		return nil
	})
	return roles, err
}

// statements change the current role to the desired one. There are none if nothing differs.
func (r Role) statements(is currentRole, found bool) []string {
	name := identifier(r.Name)
	var statements []string
	if !found {
		statements = append(statements, "CREATE ROLE "+name+" "+r.options())
	} else if r.differs(is) {
		statements = append(statements, "ALTER ROLE "+name+" "+r.options())
	}
	if r.Verifier != "" && r.Verifier != is.Verifier {
		statements = append(statements, "ALTER ROLE "+name+" PASSWORD "+literal(r.Verifier))
	}
	for _, group := range r.MemberOf {
		if !slices.Contains(is.groups, group) {
			statements = append(statements, "GRANT "+identifier(group)+" TO "+name)
		}
	}
	for _, group := range is.groups {
		if r.MemberOf != nil && !slices.Contains(r.MemberOf, group) {
			statements = append(statements, "REVOKE "+identifier(group)+" FROM "+name)
		}
	}
	return statements
}

func (r Role) differs(is currentRole) bool {
	return is.extraPrivileges || r.Login != is.Login || r.CreateDB != is.CreateDB || r.Replication != is.Replication || r.limit() != is.limit()
}

func (r Role) options() string {
	option := func(on bool, name string) string {
		if on {
			return name
		}
		return "NO" + name
	}
	return fmt.Sprintf("NOSUPERUSER INHERIT NOCREATEROLE NOBYPASSRLS %s %s %s CONNECTION LIMIT %d",
		option(r.Login, "LOGIN"), option(r.CreateDB, "CREATEDB"), option(r.Replication, "REPLICATION"), r.limit())
}

// identifier quotes an identifier.
func identifier(name string) string { return pgx.Identifier{name}.Sanitize() }

// literal quotes a string. Backslashes are literal: standard_conforming_strings is on in every session of this package.
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
