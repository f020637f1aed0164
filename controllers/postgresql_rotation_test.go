package controllers_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agent"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

// bound is a spec whose context is known, as cleanups need it.
type bound struct {
	testing.TB

	ctx context.Context
}

func (b bound) Context() context.Context { return b.ctx }

// clients log in to a real server all the time, each with one login that a Secret has held.
type clients struct {
	connect func(ctx context.Context, user, password string) error

	mu sync.Mutex
	// valid are the logins that have to work now, by name.
	valid  map[string]string
	logins int
	failed []string
}

// run logs in until the context ends.
func (c *clients) run(ctx context.Context) {
	for ctx.Err() == nil {
		c.mu.Lock()
		valid := maps.Clone(c.valid)
		c.mu.Unlock()
		for user, password := range valid {
			err := c.connect(ctx, user, password)
			c.mu.Lock()
			if c.logins++; err != nil && ctx.Err() == nil && c.valid[user] == password { // else it was withdrawn meanwhile
				c.failed = append(c.failed, fmt.Sprintf("%s: %v", user, err))
			}
			c.mu.Unlock()
		}
		time.Sleep(poll / 10) // it leaves some of the machine to the others
	}
}

// hold has clients use what the Secret says beside, or instead of, what they use.
func (c *clients) hold(s *corev1.Secret, only bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if only {
		c.valid = map[string]string{}
	}
	c.valid[string(s.Data["user"])] = string(s.Data["password"])
}

// report says how many logins there were, and which failed.
func (c *clients) report() (logins int, failed []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.logins, slices.Clone(c.failed)
}

// connector logs in to the server over TLS and asks who it is.
func connector(ca *testpg.CA, i *testpg.Instance, role string) func(context.Context, string, string) error {
	GinkgoHelper()
	pem, err := os.ReadFile(ca.File("ca.crt"))
	Expect(err).NotTo(HaveOccurred())
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	cfg, err := pgx.ParseConfig("host=127.0.0.1 sslmode=disable passfile=/dev/null")
	Expect(err).NotTo(HaveOccurred())
	cfg.Port, cfg.Database = uint16(i.Settings.Port), "app"
	cfg.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: "127.0.0.1"}
	return func(ctx context.Context, user, password string) error {
		cfg := cfg.Copy()
		cfg.User, cfg.Password = user, password
		conn, err := pgx.ConnectConfig(ctx, cfg)
		if err != nil {
			return err
		}
		defer conn.Close(context.WithoutCancel(ctx))
		var is string
		if err := conn.QueryRow(ctx, "SELECT current_user").Scan(&is); err != nil || is != role {
			return fmt.Errorf("is %q: %w", is, err)
		}
		return nil
	}
}

var _ = Describe("The passwords of a PostgreSQL", func() {
	It("are rotated while clients log in to a real server, and no login is rejected", func(ctx context.Context) {
		spec := bound{GinkgoTB(), context.WithoutCancel(ctx)}
		ca := testpg.NewCA(spec)
		server := ca.Primary(spec, "rotated-0")
		session := server.Client(spec)
		namespace, fake := newDatabases(ctx)
		fake.Update(func(d *databases) {
			d.Apply = func(ctx context.Context, wish agentapi.Desired) (agentapi.Result, error) {
				return agent.Apply(ctx, session, wish)
			}
		})
		pg := newPostgreSQL(namespace, "rotated", func(s *databasev1alpha1.PostgreSQLSpec) {
			s.Roles = []databasev1alpha1.PostgreSQLRole{{Name: "reader"}}
		})
		createDatabase(ctx, pg)
		Eventually(field(pg, func(pg *databasev1alpha1.PostgreSQL) string { return pg.Status.ConnectionString })).WithContext(ctx).ShouldNot(BeEmpty())

		secrets := map[string]*corev1.Secret{"app": secretOf(pg, "-credentials"), "reader": secretOf(pg, "-role-reader")}
		users := map[string]*clients{}
		leaked := map[string]string{}
		background, cancel := context.WithCancel(ctx)
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		for role, secret := range secrets {
			Expect(read(ctx, secret)).To(Succeed())
			users[role] = &clients{connect: connector(ca, server, role)}
			users[role].hold(secret, true)
			leaked[role] = string(secret.Data["password"])
			Eventually(users[role].connect).WithContext(ctx).WithArguments(role, leaked[role]).Should(Succeed())
			running.Go(func() { users[role].run(background) })
		}
		for n := range 3 {
			By(fmt.Sprintf("rotation %d", n+1))
			for role, secret := range secrets {
				Expect(read(ctx, secret)).To(Succeed())
				users[role].hold(secret, true)
				patch(ctx, secret, `{"metadata":{"annotations":{"fettle.dev/rotate":"%d"}}}`, n)
			}
			if n == 1 { // whatever the operator was about to do
				runningOperator.restart()
			}
			for role, secret := range secrets {
				Eventually(field(secret, func(s *corev1.Secret) string { return s.Annotations["fettle.dev/rotated"] }), "60s").
					WithContext(ctx).Should(Equal(fmt.Sprint(n)))
				users[role].hold(secret, false)
			}
			before, _ := users["app"].report()
			Eventually(func() int { now, _ := users["app"].report(); return now - before }, "60s").Should(BeNumerically(">", 20))
		}
		cancel()
		running.Wait()
		for role, user := range users {
			logins, failed := user.report()
			Expect(failed).To(BeEmpty())
			GinkgoWriter.Printf("%s: %d logins, 0 failed\n", role, logins)
			Expect(user.connect(ctx, role, leaked[role])).NotTo(Succeed(), "two rotations did not shut out the first password")
		}
	})
})
