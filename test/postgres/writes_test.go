package postgres

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/test/acks"
)

// role is the role of the writing clients. pg_hba.conf allows it by certificate.
const role = "ledger"

// prepareWrites creates the role and the table.
func (c *cluster) prepareWrites() {
	c.t.Helper()
	var primary *instance
	c.eventually("a primary", timeout, func() bool { primary = c.primary(); return primary != nil })
	operator := primary.agentClient()
	defer operator.Close()
	desired := agentapi.Desired{Roles: []agentapi.DesiredRole{{Name: role, Login: true}}, Databases: []agentapi.DesiredDatabase{{Name: role, Owner: role}}}
	for range 2 { // it can be said again
		result, err := operator.ApplyDesired(c.t.Context(), desired)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, item := range result.Items {
			if item.Error != "" {
				c.t.Fatalf("%s %s: %s", item.Kind, item.Name, item.Error)
			}
		}
	}
	var conn *pgx.Conn
	c.eventually("a connection through the Service", timeout, func() (ok bool) {
		var err error
		conn, err = c.connect(c.t.Context(), c.serviceAddress())
		return err == nil
	})
	defer conn.Close(c.t.Context())
	if err := acks.CreateTables(c.t.Context(), conn); err != nil {
		c.t.Fatal(err)
	}
}

// connect connects as the writing role.
func (c *cluster) connect(ctx context.Context, address string) (*pgx.Conn, error) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.ca.Certificate)
	pair, err := c.ca.Client(role, time.Now())
	if err != nil {
		return nil, err
	}
	certificate, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		return nil, err
	}
	return acks.Target{
		Address: address, User: role, Database: role,
		TLS: &tls.Config{RootCAs: roots, ServerName: "localhost", Certificates: []tls.Certificate{certificate}},
	}.Connect(ctx)
}

// newWriter starts to write through an address, by default the Service's.
func (c *cluster) newWriter(name, address string) *acks.Writer {
	if address == "" {
		address = c.serviceAddress()
	}
	l := acks.Start(context.Background(), acks.Options{
		Name: name, Connect: func(ctx context.Context) (*pgx.Conn, error) { return c.connect(ctx, address) },
	})
	c.t.Cleanup(l.End)
	return l
}

// waitForWrites waits until rows are acknowledged after a time.
func (c *cluster) waitForWrites(l *acks.Writer, at time.Time) {
	c.t.Helper()
	c.eventually("writes through the Service", timeout, func() bool { return !l.FirstAfter(at).IsZero() })
}

// audit compares the acknowledged rows with the rows in the table, after the writers stopped.
func (c *cluster) audit(t testing.TB, writers ...*acks.Writer) acks.Report {
	t.Helper()
	var conn *pgx.Conn
	c.eventually("a connection to count the rows", timeout, func() (ok bool) {
		var err error
		conn, err = c.connect(t.Context(), c.serviceAddress())
		return err == nil
	})
	defer conn.Close(t.Context())
	report, err := acks.Compare(t.Context(), conn, writers...)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", report)
	if report.Duplicated > 0 {
		t.Errorf("%d rows are there twice", report.Duplicated)
	}
	if report.Overlapping > 0 {
		t.Errorf("%d rows were acknowledged by a primary after the next one had acknowledged its first", report.Overlapping)
	}
	return report
}
