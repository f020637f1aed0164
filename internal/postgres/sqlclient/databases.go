package sqlclient

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/fettle-dev/fettle/internal/postgres/config"
)

// Database is a database as it is wanted.
type Database struct {
	Name string
	// Owner is a role that exists; "" leaves it alone.
	Owner string
	// Extensions are names.
	Extensions []string
}

// Check says what is wrong with a database.
func (d Database) Check() error {
	if err := config.CheckName(d.Name); err != nil {
		return fmt.Errorf("database: %w", err)
	}
	if slices.Contains([]string{"postgres", "template0", "template1"}, d.Name) && d.Owner != "" {
		return fmt.Errorf("database %q is PostgreSQL's own: use another name", d.Name)
	}
	names := d.Extensions
	if d.Owner != "" {
		names = append([]string{d.Owner}, names...)
	}
	for _, name := range names {
		if err := config.CheckName(name); err != nil {
			return fmt.Errorf("database %q: %w", d.Name, err)
		}
	}
	return nil
}

// EnsureDatabase makes a database, sets its owner and makes its extensions. It says what it changed, and sends no statement that
// would change nothing. Extensions that are not named are left alone.
func (c *Client) EnsureDatabase(ctx context.Context, d Database) ([]string, error) {
	if err := d.Check(); err != nil {
		return nil, err
	}
	changes, err := c.ensureDatabase(ctx, d)
	if err != nil {
		return changes, fmt.Errorf("make databases: %w", err)
	}
	made, err := c.ensureExtensions(ctx, d)
	changes = append(changes, made...)
	if err != nil {
		return changes, fmt.Errorf("make extensions in database %q: %w", d.Name, err)
	}
	return changes, nil
}

func (c *Client) ensureDatabase(ctx context.Context, d Database) ([]string, error) {
	var changes []string
	err := c.withConn(ctx, func(conn *pgx.Conn) error {
		changes = nil
		var owner string
		err := conn.QueryRow(ctx, `SELECT r.rolname::text FROM pg_database d JOIN pg_roles r ON r.oid = d.datdba
WHERE d.datname = $1`, d.Name).Scan(&owner)
		found := !errors.Is(err, pgx.ErrNoRows)
		if err != nil && found {
			return err
		}
		statement := d.statement(owner, found)
		if statement == "" {
			return nil
		}
		if err := execScript(ctx, conn, statement); err != nil {
			return fmt.Errorf("database %q: %w", d.Name, err)
		}
		changes = []string{changeVerb(found) + " database " + d.Name}
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
	statement := "CREATE DATABASE " + identifier(d.Name)
	if d.Owner != "" {
		statement += " OWNER " + identifier(d.Owner)
	}
	return statement
}

func (c *Client) ensureExtensions(ctx context.Context, d Database) ([]string, error) {
	if len(d.Extensions) == 0 {
		return nil, nil
	}
	options := c.options
	options.Database = d.Name
	conn, err := options.connect(ctx)
	if err != nil {
		return nil, classify(ctx, err, true)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // all was answered
	rows, err := conn.Query(ctx, "SELECT extname::text FROM pg_extension")
	if err != nil {
		return nil, classify(ctx, err, conn.IsClosed())
	}
	there, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, classify(ctx, err, conn.IsClosed())
	}
	var changes []string
	for _, name := range d.Extensions {
		if slices.Contains(there, name) {
			continue
		}
		if err := createExtension(ctx, conn, name); err != nil {
			return changes, fmt.Errorf("extension %q: %w", name, classify(ctx, err, conn.IsClosed()))
		}
		changes = append(changes, "created extension "+name+" in "+d.Name)
	}
	return changes, nil
}

// createExtension makes an extension in its own schema, or in public. Left to itself one without would go to pg_catalog, which is
// first in this session's search_path.
func createExtension(ctx context.Context, conn *pgx.Conn, name string) error {
	var own bool
	err := conn.QueryRow(ctx, `SELECT bool_or(schema IS NOT NULL) FROM pg_available_extension_versions
WHERE name = $1 HAVING count(*) > 0`, name).Scan(&own)
	if errors.Is(err, pgx.ErrNoRows) {
		return errors.New("the image does not have it: use an image that does")
	}
	if err != nil {
		return err
	}
	schema := ""
	if !own {
		schema = " SCHEMA public"
	}
	return execScript(ctx, conn, "CREATE EXTENSION "+identifier(name)+schema+" CASCADE")
}
