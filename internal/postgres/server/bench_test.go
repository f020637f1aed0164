package server_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fettle-dev/fettle/internal/postgres/server"
	"github.com/fettle-dev/fettle/internal/postgres/sqlclient"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

// report reports median and maximum in milliseconds.
func report(b *testing.B, what string, times []time.Duration) {
	b.Helper()
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds())/1e3, what+"-median-ms")
	b.ReportMetric(float64(times[len(times)-1].Microseconds())/1e3, what+"-max-ms")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkInit measures initdb and server start: go test -bench Init -benchtime 10x
func BenchmarkInit(b *testing.B) {
	var inits, starts []time.Duration
	for range b.N {
		i := testpg.New(b, "bench-0")
		begin := time.Now()
		if err := i.Init(b.Context(), server.InitOptions{}); err != nil {
			b.Fatal(err)
		}
		inits = append(inits, time.Since(begin))
		begin = time.Now()
		i.Start(b)
		starts = append(starts, time.Since(begin))
	}
	report(b, "initdb", inits)
	report(b, "start", starts)
}

// BenchmarkPromote measures the time from the request to the first committed write, with two ways of promotion in turn.
func BenchmarkPromote(b *testing.B) {
	ways := []struct {
		name string
		ask  func(i *testpg.Instance, c *sqlclient.Client) error
	}{
		{"signal", func(i *testpg.Instance, _ *sqlclient.Client) error { return i.Process().Promote() }},
		{"pg_promote", func(_ *testpg.Instance, c *sqlclient.Client) error {
			return c.Query(b.Context(), "SELECT pg_promote(false)", func(pgx.CollectableRow) error { return nil })
		}},
	}
	ca := testpg.NewCA(b)
	primary := ca.Primary(b, "bench-0")
	times := map[string][]time.Duration{}
	for n := range 2 * b.N {
		way := ways[n%2]
		standby := ca.Standby(b, fmt.Sprintf("bench-%d", n+1), primary)
		c := standby.Client(b)
		if _, err := c.InRecovery(b.Context()); err != nil {
			b.Fatal(err)
		}
		begin := time.Now()
		err := way.ask(standby, c)
		if err == nil {
			err = c.WaitPrimary(b.Context())
		}
		if err == nil {
			err = c.Heartbeat(b.Context())
		}
		times[way.name] = append(times[way.name], time.Since(begin))
		if err != nil {
			b.Fatal(err)
		}
		standby.Stop(b)
		if err := standby.Remove(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	for name, measured := range times {
		report(b, name, measured)
	}
}

// BenchmarkStop stops a server under load, as fencing and switchover do.
func BenchmarkStop(b *testing.B) {
	ways := map[string]func(ctx context.Context, p *server.Process) error{
		"fast":  func(ctx context.Context, p *server.Process) error { return p.Stop(ctx, server.Fast) },
		"fence": func(ctx context.Context, p *server.Process) error { return p.Fence(ctx, 2*time.Second) },
		"kill":  func(ctx context.Context, p *server.Process) error { return p.Kill(ctx) },
	}
	for name, end := range ways {
		b.Run(name, func(b *testing.B) {
			var times []time.Duration
			i := testpg.NewRunning(b, "bench-0")
			load(b, i, "CREATE TABLE written (n bigserial)")
			for n := range b.N {
				if n > 0 {
					i.Start(b)
				}
				for range 4 {
					go load(b, i, writer)
				}
				waitForWriters(b, i)
				begin := time.Now()
				if err := end(b.Context(), i.Process()); err != nil {
					b.Fatal(err)
				}
				times = append(times, time.Since(begin))
			}
			report(b, "stopped", times)
		})
	}
}

// load runs a statement, which may end with the server.
func load(b *testing.B, i *testpg.Instance, statement string) {
	conn, err := pgx.Connect(b.Context(), "host="+i.SocketDir()+" port="+itoa(i.Settings.Port)+" user=postgres dbname=postgres")
	if err == nil {
		_, _ = conn.Exec(b.Context(), statement, pgx.QueryExecModeSimpleProtocol)
	}
}

// waitForWriters waits until all four writers run, and one more second.
func waitForWriters(b *testing.B, i *testpg.Instance) {
	b.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		if time.Now().After(deadline) {
			b.Fatal("no writers")
		}
		var writers int
		err := i.Client(b).Query(b.Context(), "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'DO %'", func(row pgx.CollectableRow) error {
			return row.Scan(&writers)
		})
		if err == nil && writers == 4 {
			time.Sleep(time.Second)
			return
		}
	}
}

// BenchmarkControlData measures reading the control file of a running server.
func BenchmarkControlData(b *testing.B) {
	i := testpg.NewRunning(b, "bench-0")
	var times []time.Duration
	for range b.N {
		begin := time.Now()
		if _, err := i.ControlData(b.Context()); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(begin))
	}
	report(b, "read", times)
}
