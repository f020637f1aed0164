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

// CheckImported says why data that are a copy of another server's must not become this cluster's, in a sentence; "" if they may. The
// server may be a standby. The error says that it was not possible to ask.
func (c *Client) CheckImported(ctx context.Context) (string, error) {
	var problem string
	err := c.withConn(ctx, func(conn *pgx.Conn) error {
		var err error
		problem, err = importProblem(ctx, conn)
		return err
	})
	serverError, rejected := errors.AsType[*pgconn.PgError](err)
	if rejected && errors.Is(err, errConnect) && !errors.Is(err, ErrUnavailable) {
		return fmt.Sprintf("the copy does not let Fettle in, which needs the superuser %s and the database postgres: %s", config.Superuser, serverError.Message), nil
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
		return fmt.Sprintf("the role %s of the source is no superuser, which Fettle needs it to be", config.Superuser), nil
	case len(subscriptions) > 0:
		return fmt.Sprintf("the source has subscriptions that are enabled (%s): its copy would take from their publishers what the source is waiting for. They have to be disabled while it is copied",
			strings.Join(subscriptions, ", ")), nil
	}
	return "", nil
}
