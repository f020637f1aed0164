package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-dev/fettle/test/acks"
)

const (
	// writers is how many clients write at once.
	writers = 3
	// A client gives an answer up after answerWithin, waits for tryAgainAfter, and then tries once more: a new connection
	// within connectWithin and an answer within answerWithin. So an error is what refuses connections for 4 s from the first
	// failure on, or stands still for longer. On a busy machine a login alone may take a second.
	answerWithin, tryAgainAfter, connectWithin = 5 * time.Second, 4 * time.Second, 5 * time.Second
)

// clients write into one database.
type clients struct {
	target  acks.Target
	ledgers []*acks.Writer
	begun   time.Time
}

// startClients has them write, as the owner of the database, until the specs of the container have ended.
func (n namespaced) startClients(ctx context.Context, cluster string) *clients {
	GinkgoHelper()
	credentials, service := &corev1.Secret{}, &corev1.Service{}
	for name, o := range map[string]client.Object{cluster + "-credentials": credentials, cluster: service} {
		Expect(k8s.Get(ctx, client.ObjectKey{Namespace: n.name, Name: name}, o)).To(Succeed())
	}
	roots := x509.NewCertPool()
	Expect(roots.AppendCertsFromPEM(credentials.Data["ca.crt"])).To(BeTrue())
	c := &clients{begun: time.Now(), target: acks.Target{
		Address: service.Spec.ClusterIP + ":5432",
		User:    string(credentials.Data["user"]), Password: string(credentials.Data["password"]), Database: string(credentials.Data["dbname"]),
		TLS: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: string(credentials.Data["host"])},
	}}
	conn := connect(ctx, c.target)
	Expect(acks.CreateTables(ctx, conn)).To(Succeed())
	Expect(conn.Close(ctx)).To(Succeed())
	for i := range writers {
		c.ledgers = append(c.ledgers, acks.Start(context.WithoutCancel(ctx), acks.Options{
			Name: fmt.Sprint("client-", i), Pause: 10 * time.Millisecond, AnswerTimeout: answerWithin, DialTimeout: connectWithin, RetryPause: tryAgainAfter,
			Connect: func(ctx context.Context) (*pgx.Conn, error) { return c.target.Connect(ctx) },
		}))
	}
	DeferCleanup(c.end)
	return c
}

func (c *clients) end() {
	var ending sync.WaitGroup
	for _, l := range c.ledgers {
		ending.Go(l.End)
	}
	ending.Wait()
}

// errors are those that clients have seen: the second try of a row failed too.
func (c *clients) errors() []error {
	var out []error
	for _, l := range c.ledgers {
		entries := l.Entries()
		for i := 1; i < len(entries); i++ {
			if first, second := entries[i-1], entries[i]; !first.Acknowledged && !second.Acknowledged && !errors.Is(second.Err, context.Canceled) {
				out = append(out, fmt.Errorf("%s: row %d at %s: %w, and %s later: %w", l.Name(), first.Row, first.Answered.Format(time.TimeOnly),
					first.Err, second.Answered.Sub(first.Answered), second.Err))
			}
		}
	}
	return out
}

func (c *clients) expectNoError() {
	GinkgoHelper()
	Expect(c.errors()).To(BeEmpty())
}

// longestGap is the longest time in which some client had no row acknowledged.
func (c *clients) longestGap() (longest time.Duration) {
	for _, l := range c.ledgers {
		longest = max(longest, l.Gap(c.begun).Length())
	}
	return longest
}
