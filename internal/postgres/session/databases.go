package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fettle-dev/fettle/internal/postgres/config"
)

// Database is a database as it is wanted.
type Database struct {
	Name string
	// Owner is a role that exists; "" leaves it alone.
	Owner string
	// Encoding, Locale and Template only matter when it is made; "" takes those of the server.
	Encoding, Locale, Template string
	Extensions                 []Extension
}

// Extension is one of a database.
type Extension struct {
	Name string
	// Version is "" for whatever is there or the default.
	Version string
	// Schema is "" for whatever it is in or the default; else it must exist.
	Schema string
}

// Check says what is wrong with a database.
func (d Database) Check() error {
	if err := config.CheckName(d.Name); err != nil {
		return fmt.Errorf("database: %w", err)
	}
	if slices.Contains([]string{"postgres", "template0", "template1"}, d.Name) && (d.Owner != "" || d.Encoding != "" || d.Locale != "") {
		return fmt.Errorf("database %q is PostgreSQL's own: use another name", d.Name)
	}
	names := []string{d.Owner, d.Encoding, d.Locale, d.Template}
	for _, e := range d.Extensions {
		if e.Name == "" {
			return fmt.Errorf("database %q: an extension has no name", d.Name)
		}
		names = append(names, e.Name, e.Version, e.Schema)
	}
	for _, name := range names {
		if name == "" {
			continue
		}
		if err := config.CheckName(name); err != nil {
			return fmt.Errorf("database %q: %w", d.Name, err)
		}
	}
	return nil
}

// EnsureDatabases makes databases, sets their owners and makes their extensions. It says what it changed, and sends no
// statement that would change nothing. Databases and extensions that are not named are left alone.
func (c *Client) EnsureDatabases(ctx context.Context, wanted []Database) ([]string, error) {
	var errs []error
	for _, d := range wanted {
		errs = append(errs, d.Check())
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	changes, err := c.ensureDatabases(ctx, wanted)
	if err != nil {
		return changes, fmt.Errorf("make databases: %w", err)
	}
	for _, d := range wanted {
		made, err := c.ensureExtensions(ctx, d)
		changes = append(changes, made...)
		if err != nil {
			return changes, fmt.Errorf("make extensions in database %q: %w", d.Name, err)
		}
	}
	return changes, nil
}

func (c *Client) ensureDatabases(ctx context.Context, wanted []Database) ([]string, error) {
	var changes []string
	err := c.use(ctx, func(conn *pgx.Conn) error {
		changes = nil
		rows, err := conn.Query(ctx, "SELECT d.datname::text, r.rolname::text FROM pg_database d JOIN pg_roles r ON r.oid = d.datdba")
		if err != nil {
			return err
		}
		owners := map[string]string{}
		var name, owner string
		if _, err := pgx.ForEachRow(rows, []any{&name, &owner}, func() error { owners[name] = owner; return nil }); err != nil {
			return err
		}
		for _, d := range wanted {
			owner, found := owners[d.Name]
			statement := d.statement(owner, found)
			if statement == "" {
				continue
			}
			if err := script(ctx, conn, statement); err != nil {
				return fmt.Errorf("database %q: %w", d.Name, err)
			}
			changes = append(changes, change(found)+" database "+d.Name)
		}
		return nil
	})
	return changes, err
}

// statement makes the database, or gives it to its owner; "" when there is nothing to do.
func (d Database) statement(owner string, found bool) string {
	if found {
		if d.Owner == "" || d.Owner == owner {
			return ""
		}
		return "ALTER DATABASE " + identifier(d.Name) + " OWNER TO " + identifier(d.Owner)
	}
	parts := []string{"CREATE DATABASE", identifier(d.Name)}
	template := d.Template
	if template == "" && (d.Encoding != "" || d.Locale != "") {
		template = "template0" // the other one may hold what is not of that encoding
	}
	for _, option := range []struct{ name, value string }{
		{"OWNER", d.Owner}, {"TEMPLATE", template},
	} {
		if option.value != "" {
			parts = append(parts, option.name, identifier(option.value))
		}
	}
	if d.Encoding != "" {
		parts = append(parts, "ENCODING", literal(d.Encoding))
	}
	if d.Locale != "" {
		parts = append(parts, "LOCALE", literal(d.Locale))
	}
	return strings.Join(parts, " ")
}

// liveExtension is an extension as it is.
type liveExtension struct{ version, schema string }

func (c *Client) ensureExtensions(ctx context.Context, d Database) ([]string, error) {
	if len(d.Extensions) == 0 {
		return nil, nil
	}
	options := c.options
	options.Database = d.Name
	conn, err := options.connect(ctx)
	if err != nil {
		return nil, reason(ctx, err, true)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // all was answered
	rows, err := conn.Query(ctx, "SELECT e.extname::text, e.extversion, n.nspname::text FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace")
	if err != nil {
		return nil, reason(ctx, err, conn.IsClosed())
	}
	there := map[string]liveExtension{}
	var name string
	var is liveExtension
	if _, err := pgx.ForEachRow(rows, []any{&name, &is.version, &is.schema}, func() error { there[name] = is; return nil }); err != nil {
		return nil, reason(ctx, err, conn.IsClosed())
	}
	var changes []string
	for _, e := range d.Extensions {
		is, found := there[e.Name]
		statements, err := e.statements(ctx, conn, is, found)
		if err == nil && len(statements) > 0 {
			err = script(ctx, conn, strings.Join(statements, ";\n"))
		}
		if err != nil {
			return changes, fmt.Errorf("extension %q: %w", e.Name, reason(ctx, err, conn.IsClosed()))
		}
		if len(statements) > 0 {
			changes = append(changes, change(found)+" extension "+e.Name+" in "+d.Name)
		}
	}
	return changes, nil
}

func (e Extension) statements(ctx context.Context, conn *pgx.Conn, is liveExtension, found bool) ([]string, error) {
	name := identifier(e.Name)
	if found {
		var statements []string
		if e.Version != "" && e.Version != is.version {
			statements = append(statements, "ALTER EXTENSION "+name+" UPDATE TO "+literal(e.Version))
		}
		if e.Schema != "" && e.Schema != is.schema {
			statements = append(statements, "ALTER EXTENSION "+name+" SET SCHEMA "+identifier(e.Schema))
		}
		return statements, nil
	}
	schema, err := e.home(ctx, conn)
	if err != nil {
		return nil, err
	}
	statement := "CREATE EXTENSION " + name
	if schema != "" {
		statement += " SCHEMA " + identifier(schema)
	}
	if e.Version != "" {
		statement += " VERSION " + literal(e.Version)
	}
	return []string{statement + " CASCADE"}, nil
}

// home is the schema to make the extension in; "" when it has one of its own. Left to itself it would go to pg_catalog,
// which is first in this session's search_path.
func (e Extension) home(ctx context.Context, conn *pgx.Conn) (string, error) {
	if e.Schema != "" {
		return e.Schema, nil
	}
	var own bool
	err := conn.QueryRow(ctx, `SELECT bool_or(schema IS NOT NULL) FROM pg_available_extension_versions
WHERE name = $1 HAVING count(*) > 0`, e.Name).Scan(&own)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", errors.New("the image does not have it: use an image that does")
	}
	if err != nil || own {
		return "", err
	}
	return "public", nil
}

// DropDatabase removes a database and ends its sessions. Without such a database it does nothing.
func (c *Client) DropDatabase(ctx context.Context, name string) error {
	if err := (Database{Name: name, Owner: name}).Check(); err != nil {
		return err
	}
	return c.use(ctx, func(conn *pgx.Conn) error {
		return script(ctx, conn, "DROP DATABASE IF EXISTS "+identifier(name)+" WITH (FORCE)")
	})
}
