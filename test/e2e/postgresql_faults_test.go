package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-dev/fettle/test/acks"
	"github.com/fettle-dev/fettle/test/localcluster"
)

// database is how a client on this machine reaches a PostgreSQL: through its Service, as the owner of its database.
func (n namespaced) database(ctx context.Context, cluster string) acks.Target {
	GinkgoHelper()
	service, credentials := &corev1.Service{}, &corev1.Secret{}
	for name, object := range map[string]client.Object{cluster: service, cluster + "-credentials": credentials} {
		Expect(k8s.Get(ctx, client.ObjectKey{Namespace: n.name, Name: name}, object)).To(Succeed())
	}
	roots := x509.NewCertPool()
	Expect(roots.AppendCertsFromPEM(credentials.Data["ca.crt"])).To(BeTrue())
	said := func(key string) string { return string(credentials.Data[key]) }
	return acks.Target{
		Address: service.Spec.ClusterIP + ":5432", User: said("user"), Password: said("password"), Database: said("dbname"),
		TLS: &tls.Config{RootCAs: roots, ServerName: said("host"), MinVersion: tls.VersionTLS12},
	}
}

// connect opens a session as soon as there is one to be had.
func connect(ctx context.Context, target acks.Target) (conn *pgx.Conn) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		conn, err = target.Connect(ctx)
		return err
	}).WithTimeout(soon).Should(Succeed())
	return conn
}

// postgresProcesses are those of the PostgreSQL in a pod, the postmaster first. They run on this machine.
func (n namespaced) postgresProcesses(ctx context.Context, pod string) []localcluster.Process {
	GinkgoHelper()
	p := &corev1.Pod{}
	Expect(k8s.Get(ctx, client.ObjectKey{Namespace: n.name, Name: pod}, p)).To(Succeed())
	Expect(p.Status.ContainerStatuses).NotTo(BeEmpty())
	all, err := localcluster.Container(p.Status.ContainerStatuses[0].ContainerID)
	Expect(err).NotTo(HaveOccurred())
	server := localcluster.PostgreSQL(all)
	Expect(server).NotTo(BeEmpty())
	return server
}

// befallsPrimary writes rows while something happens to the primary of a PostgreSQL, until rows are acknowledged again and
// it is Ready. Nothing may be lost. It returns how many primaries acknowledged rows.
func (n namespaced) befallsPrimary(ctx context.Context, cluster string, happens func(primary string)) int {
	GinkgoHelper()
	before := n.recovered(ctx, cluster).Status.Primary
	target := n.database(ctx, cluster)
	conn := connect(ctx, target)
	Expect(acks.CreateTables(ctx, conn)).To(Succeed())
	Expect(conn.Close(ctx)).To(Succeed())

	l := acks.Start(ctx, acks.Options{Name: fmt.Sprint(time.Now().UnixNano()), Connect: target.Connect, Pause: 5 * time.Millisecond})
	defer l.End()
	acknowledged := func(since time.Time) {
		GinkgoHelper()
		Eventually(ctx, func() time.Time { return l.FirstAfter(since) }).WithTimeout(later).ShouldNot(BeZero(), "no row is acknowledged")
	}
	acknowledged(time.Now())
	begun := time.Now()
	happens(before)
	Eventually(ctx, func() int { return l.Failed(begun) }).WithTimeout(later).Should(BeNumerically(">", 0), "the client has noticed nothing")
	acknowledged(time.Now())
	n.recovered(ctx, cluster)
	acknowledged(time.Now())
	l.End()

	conn = connect(ctx, target)
	defer conn.Close(ctx)
	found, err := acks.Compare(ctx, conn, l)
	Expect(err).NotTo(HaveOccurred())
	report(fmt.Sprintf("%.1f s without an acknowledged row; %d acknowledged, %d there", l.Gap(begun).Length().Seconds(), found.Acknowledged, found.Found))
	Expect(found.Lost).To(BeZero(), "acknowledged rows were lost")
	Expect(found.Duplicated).To(BeZero(), "rows are there twice")
	Expect(found.Overlapping).To(BeZero(), "two primaries acknowledged rows at a time")
	return len(found.Servers)
}

// databaseFaultSpecs are what happens to processes, which only the local cluster lets one do.
func databaseFaultSpecs(ns *namespaced, cluster string) {
	BeforeEach(func() {
		if !local {
			Skip("processes of nodes can only be reached on the local cluster (`make up`)")
		}
	})

	It("loses no row when PostgreSQL is killed", func(ctx SpecContext) {
		primaries := ns.befallsPrimary(ctx, cluster, func(primary string) {
			Expect(ns.postgresProcesses(ctx, primary)[0].Signal(syscall.SIGKILL)).To(Succeed())
		})
		Expect(primaries).To(BeNumerically("<=", 2), "more than one new primary")
	}, SpecTimeout(15*time.Minute))

	It("loses no row when PostgreSQL hangs", func(ctx SpecContext) {
		primaries := ns.befallsPrimary(ctx, cluster, func(primary string) {
			Expect(ns.postgresProcesses(ctx, primary)[0].Signal(syscall.SIGSTOP)).To(Succeed())
			for _, p := range ns.postgresProcesses(ctx, primary) { // no more of them come
				DeferCleanup(func() { _ = p.Signal(syscall.SIGCONT) }) // it should have ended
				_ = p.Signal(syscall.SIGSTOP)                          // it may have ended just now
			}
		})
		// The one that stood still may lead again: its agent ends and starts it, and it may have the most.
		Expect(primaries).To(BeNumerically("<=", 2), "more than one new primary")
	}, SpecTimeout(15*time.Minute))
}
