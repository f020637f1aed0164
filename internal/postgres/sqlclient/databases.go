package sqlclient

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/fettle-dev/fettle/internal/postgres/config"
)

// Database is a desired database.
type Database struct {
	Name string
	// Owner is an existing role. "" leaves the owner unchanged.
	Owner string
	// Extensions are the names of extensions to create.
	Extensions []string
}

// Check validates a database.
func (d Database) Check() error {
	if err := config.CheckName(d.Name); err != nil {
		return fmt.Errorf("database: %w", err)
	}
	if slices.Contains([]string{"postgres", "template0", "template1"}, d.Name) && d.Owner != "" {
		return fmt.Errorf("database name %q is reserved by PostgreSQL: use another name", d.Name)
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

// EnsureDatabase creates a database, sets its owner and creates its extensions. It returns what it changed, and sends only
// statements that change something. Other extensions are left unchanged.
func (c *Client) EnsureDatabase(ctx context.Context, d Database) ([]string, error) {
	if err := d.Check(); err != nil {
		return nil, err
	}
	changes, err := c.ensureDatabase(ctx, d)
	if err != nil {
		return changes, fmt.Errorf("apply databases: %w", err)
	}
	made, err := c.ensureExtensions(ctx, d)
	changes = append(changes, made...)
	if err != nil {
		return changes, fmt.Errorf("create extensions in database %q: %w", d.Name, err)
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

// statement creates the database or changes its owner. It is "" if nothing differs.
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
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // all results were read
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

// createExtension creates an extension in its own schema, or in public. Without a schema it would use pg_catalog, the first
// entry of this connection's search_path.
func createExtension(ctx context.Context, conn *pgx.Conn, name string) error {
	var own bool
	err := conn.QueryRow(ctx, `SELECT bool_or(schema IS NOT NULL) FROM pg_available_extension_versions
WHERE name = $1 HAVING count(*) > 0`, name).Scan(&own)
	if errors.Is(err, pgx.ErrNoRows) {
		return errors.New("the image does not contain it: set spec.image to an image that does")
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
