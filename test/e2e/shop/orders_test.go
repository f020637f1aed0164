package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fettle-dev/fettle/internal/testenv/testdatabases"
)

func TestNewOrders_rejectsWithoutSecrets(t *testing.T) {
	for name, uri := range map[string]string{
		"DATABASE_URL": "postgresql://app:hidden@db:wrong/app",
		"MYSQL_URL":    "mysql://app:hidden%zz@db/app",
	} {
		_, err := newOrders(func(variable string) string { return map[string]string{name: uri}[variable] })
		if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, err := newOrders(func(string) string { return "" }); err == nil {
		t.Error("no URL was accepted")
	}
}

func TestMySQLConfig(t *testing.T) {
	config, err := mysqlConfig("mysql://app:p%40ss%2F@db.shop.svc/orders")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(config.User, " ", config.Passwd, " ", config.Addr, " ", config.DBName); got != "app p@ss/ db.shop.svc:3306 orders" {
		t.Error(got)
	}
	for _, uri := range []string{"postgresql://app@db/app", "mysql:///app", "app:pass@tcp(db)/app"} {
		if _, err := mysqlConfig(uri); err == nil {
			t.Errorf("%s was accepted", uri)
		}
	}
}

// TestOrders_postgreSQL also breaks all connections, as a failover does.
func TestOrders_postgreSQL(t *testing.T) {
	server := testdatabases.NewPostgreSQL(t)
	server.Create(t, "shop")
	t.Setenv("PGSSLROOTCERT", server.CA.File("ca.crt"))
	o := openOrders(t, "DATABASE_URL", "postgresql", "localhost", server.Port(), "?sslmode=verify-full")
	testOrders(t, o)

	server.SQL(t, "shop", "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'app'")
	placed := place(t, o, "after")
	if again := place(t, o, "after"); again != placed {
		t.Errorf("%+v became %+v", placed, again)
	}
}

func TestOrders_mariaDB(t *testing.T) {
	server := testdatabases.NewMariaDB(t)
	server.Create(t, "shop")
	testOrders(t, openOrders(t, "MYSQL_URL", "mysql", "127.0.0.1", server.Port(), ""))
}

func openOrders(t *testing.T, variable, scheme, host string, port int32, query string) *orders {
	t.Helper()
	u := url.URL{Scheme: scheme, User: url.UserPassword(testdatabases.User, testdatabases.Password), Host: fmt.Sprint(host, ":", port), Path: "/shop"}
	o, err := newOrders(func(name string) string { return map[string]string{variable: u.String() + query}[name] })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.close)
	for range 2 { // another pod creates it too
		if err := retry(t.Context(), startTimeout, attemptTimeout, o.createTable); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// place places an order, with the retries of the backend.
func place(t *testing.T, o *orders, key string) (stored order) {
	t.Helper()
	err := retry(t.Context(), requestTimeout, attemptTimeout, func(ctx context.Context) (err error) {
		stored, err = o.place(ctx, order{Key: key, Product: "espresso", Quantity: 2, Cents: 4980})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

// testOrders holds that a key stores one order, also for requests at the same time.
func testOrders(t *testing.T, o *orders) {
	t.Helper()
	var clients sync.WaitGroup
	var mutex sync.Mutex
	var answers []order
	for range 8 {
		clients.Go(func() {
			stored := order{}
			err := retry(t.Context(), requestTimeout, attemptTimeout, func(ctx context.Context) (err error) {
				stored, err = o.place(ctx, order{Key: "same", Product: "espresso", Quantity: 2, Cents: 4980})
				return err
			})
			mutex.Lock()
			defer mutex.Unlock()
			answers = append(answers, stored)
			if err != nil {
				t.Error(err)
			}
		})
	}
	clients.Wait()
	if len(slices.Compact(slices.Clone(answers))) != 1 {
		t.Errorf("different answers for one key: %+v", answers)
	}
	upper := place(t, o, "Same") // keys differ by case
	found, err := o.summary(t.Context(), []string{"same", "Same", "missing"})
	if err != nil {
		t.Fatal(err)
	}
	want := summary{Count: 2, Orders: []order{answers[0], upper}}
	if fmt.Sprint(found) != fmt.Sprint(want) {
		t.Errorf("found %+v instead of %+v", found, want)
	}
	testRollback(t, o)
}

// testRollback holds that a failed transaction stores nothing, and that a slow one ends.
func testRollback(t *testing.T, o *orders) {
	t.Helper()
	canceled, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	blocked := false
	err := o.attempt(canceled, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, o.insert, "lost", "espresso", 1, 2490); err != nil {
			return err
		}
		blocked = true
		<-ctx.Done()
		return nil
	})
	if err == nil || !blocked {
		t.Errorf("inserted %t, error %v", blocked, err)
	}
	found, err := o.summary(t.Context(), []string{"lost"})
	if err != nil || found.Count != 2 || len(found.Orders) != 0 {
		t.Errorf("found %+v, error %v", found, err)
	}
}
