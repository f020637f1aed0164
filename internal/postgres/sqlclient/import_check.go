package sqlclient

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fettle-dev/fettle/internal/postgres/config"
)

// CheckImported returns why a copy of an external server must not become this cluster's data, or "" if it may. The server
// may be a standby. The error means that the check itself failed.
func (c *Client) CheckImported(ctx context.Context) (string, error) {
	var problem string
	err := c.withConn(ctx, func(conn *pgx.Conn) error {
		var err error
		problem, err = importProblem(ctx, conn)
		return err
	})
	serverError, rejected := errors.AsType[*pgconn.PgError](err)
	if rejected && errors.Is(err, errConnect) && !errors.Is(err, ErrUnavailable) {
		return fmt.Sprintf("cannot connect to the copy as superuser %s to database postgres: %s", config.Superuser, serverError.Message), nil
	}
	return problem, err
}

func importProblem(ctx context.Context, conn *pgx.Conn) (string, error) {
	var super bool
	var subscriptions []string
	err := conn.QueryRow(ctx, `SELECT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user),
  ARRAY(SELECT subname::text FROM pg_subscription WHERE subenabled ORDER BY 1)`).Scan(&super, &subscriptions)
	switch {
	case err != nil:
		return "", err
	case !super:
		return fmt.Sprintf("the role %s of the source is not a superuser, which Fettle requires", config.Superuser), nil
	case len(subscriptions) > 0:
		return fmt.Sprintf("the source has enabled subscriptions (%s), and the copy would consume their changes from the publishers: disable them on the source during the copy",
			strings.Join(subscriptions, ", ")), nil
	}
	return "", nil
}
