package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/test/acks"
)

// physicalBackupSpecs restore a PostgreSQL to points in time, while a client writes rows one after another. Each restored PostgreSQL
// must have exactly the rows that were committed before.
func physicalBackupSpecs() {
	var ns, stores namespaced
	var writer *acks.Writer
	var created, between time.Time

	BeforeAll(func(ctx SpecContext) {
		stores, ns = newNamespace(ctx, restricted), newNamespace(ctx, restricted)
		created = time.Now()
		var starts sync.WaitGroup
		starts.Go(func() {
			defer GinkgoRecover()
			stores.startStores(ctx, s3Store)
		})
		ns.postgreSQL(ctx, "ledger", "replicas: 2, synchronous: {number: 1}, deletionPolicy: Delete")
		ns.databaseReady(ctx, "ledger")
		starts.Wait()
		ns.useStore(ctx, stores, s3Store)
		DeferCleanup(func() {
			if writer != nil {
				writer.End()
			}
		})
	}, NodeTimeout(10*time.Minute))

	It("starts to archive WAL without a restart", func(ctx SpecContext) {
		before := ns.lives(ctx, "ledger")
		ns.run(ctx, "patch", "postgresql", "ledger", "--type=merge", "-p", `{"spec":{"backup":{"enabled":true,"destination":`+inline(s3Store.destination(stores))+`}}}`)
		ns.archiving(ctx, "ledger", MatchRegexp("^(Unknown ArchivingStarting|True )"))
		ns.archived(ctx, ns.recovered(ctx, "ledger").Status.Primary)
		ns.archiving(ctx, "ledger", HavePrefix("True "))
		Expect(ns.lives(ctx, "ledger")).To(Equal(before), "pods were replaced or restarted")
		Eventually(ctx, ns.state(backupKind, "ledger", backupv1alpha1.BackupAccepted)).WithTimeout(soon).Should(HavePrefix("True "))

		conn := connect(ctx, ns.database(ctx, "ledger"))
		Expect(acks.CreateTables(ctx, conn)).To(Succeed())
		Expect(conn.Close(ctx)).To(Succeed())
		writer = acks.Start(context.WithoutCancel(ctx), acks.Options{Name: "ledger", Connect: ns.database(ctx, "ledger").Connect, Pause: 20 * time.Millisecond})
	}, SpecTimeout(5*time.Minute))

	It("makes a base backup from a standby while rows are written", func(ctx SpecContext) {
		begun := time.Now()
		primary := ns.recovered(ctx, "ledger").Status.Primary
		Eventually(ctx, func(ctx context.Context) (string, error) {
			// The run waits for its WAL, which is else archived after a minute. On a busy machine, the primary may change meanwhile.
			_, _ = ns.trySwitchWAL(ctx, primary)
			return ns.state(backupKind, "ledger", fettlev1.Ready)(ctx)
		}).WithPolling(5 * time.Second).WithTimeout(later).Should(HavePrefix("True "))
		report(fmt.Sprintf("base backup with its WAL in %.0f s", time.Since(begun).Seconds()))
		Expect(ns.backupStatus(ctx, "ledger").FirstRecoverableTime.Time).To(BeTemporally(">", created))
	}, SpecTimeout(5*time.Minute))

	It("archives through two failovers", func(ctx SpecContext) {
		ns.failOver(ctx, "ledger", writer)
		between = time.Now()
		ns.failOver(ctx, "ledger", writer)
		ns.archiving(ctx, "ledger", HavePrefix("True "))
	}, SpecTimeout(10*time.Minute))

	It("reports within a minute that WAL cannot be stored, takes writes meanwhile, and catches up", func(ctx SpecContext) {
		stores.run(ctx, "scale", "deployment/s3", "--replicas=0")
		stores.run(ctx, "wait", "--for=delete", "pod", "-l", "app=s3", "--timeout=60s")
		away := time.Now()
		pg := ns.recovered(ctx, "ledger")
		ns.switchWAL(ctx, pg.Status.Primary)
		ns.archiving(ctx, "ledger", MatchRegexp("^False ArchivingFailed: .* cannot store WAL .*store"))
		Expect(time.Since(away)).To(BeNumerically("<", time.Minute))
		Eventually(ctx, func() time.Time { return writer.FirstAfter(time.Now().Add(-time.Second)) }).WithTimeout(soon).ShouldNot(BeZero(), "no row is acknowledged")
		stores.run(ctx, "scale", "deployment/s3", "--replicas=1")
		ns.archiving(ctx, "ledger", HavePrefix("True "))
	}, SpecTimeout(5*time.Minute))

	It("restores to a time between two failovers", func(ctx SpecContext) {
		ns.restore(ctx, "check", "{backup: ledger}", "{temporary: {query: select true}}", "")
		ns.recoverTo(ctx, "then", fmt.Sprintf("backup: ledger, targetTime: %q", between.UTC().Format("2006-01-02T15:04:05.000000Z")))
		ns.recoverTo(ctx, "early", fmt.Sprintf("backup: ledger, targetTime: %q", created.UTC().Format(time.RFC3339)))
		ns.databaseReady(ctx, "then")
		ns.hasRowsUntil(ctx, "then", writer, between)
		ns.answers(ctx, "then-0", "then", "create table if not exists more(a int); select count(*) from more", "0")
		early := &databasev1alpha1.PostgreSQL{}
		Eventually(ctx, func(ctx context.Context) (string, error) {
			return ns.databaseState(ctx, "early", early)
		}).WithTimeout(later).Should(And(HavePrefix("False "), ContainSubstring("targetTime")))
		ns.becomesReady(ctx, restoreKind, "check") // with the WAL of all timelines
		ns.run(ctx, "delete", "postgresql", "then", "early")
	}, SpecTimeout(10*time.Minute))

	It("restores the PostgreSQL in place, and returns to its former data", func(ctx SpecContext) {
		writer.End()
		ns.archived(ctx, ns.recovered(ctx, "ledger").Status.Primary)
		stamp := func(at time.Time) string {
			return fmt.Sprintf("overwrite: ledger, targetTime: %q", at.UTC().Format("2006-01-02T15:04:05.000000Z"))
		}

		By("failing, since the target is after the last WAL")
		begun := time.Now()
		ns.restore(ctx, "later", "{backup: ledger}", "{postgresRef: ledger}", stamp(time.Now().Add(time.Hour)))
		ns.says(ctx, "later", ns.state(restoreKind, "later", fettlev1.Ready), "False TargetNotReached", "data-2-ledger-0 to 1 of this attempt are kept")
		ns.runsOn(ctx, "ledger", 1)
		ns.hasAllRows(ctx, "ledger", writer)
		report(fmt.Sprintf("restore in place failed, and the former data served again, in %.0f s", time.Since(begun).Seconds()))

		By("succeeding")
		begun = time.Now()
		ns.restore(ctx, "then", "{backup: ledger}", "{postgresRef: ledger}", stamp(between))
		ns.becomesReady(ctx, restoreKind, "then")
		report(fmt.Sprintf("restored in place in %.0f s", time.Since(begun).Seconds()))
		pg := ns.runsOn(ctx, "ledger", 3)
		ns.hasRowsUntil(ctx, "ledger", writer, between)
		ns.archived(ctx, pg.Status.Primary)
		ns.run(ctx, "get", "pvc/data-ledger-0", "pvc/data-ledger-1", "pvc/data-2-ledger-0", "pvc/data-3-ledger-0", "pvc/data-3-ledger-1")

		By("returning")
		ns.run(ctx, "annotate", "postgresql", "ledger", "fettle.dev/volumes=1", "--overwrite")
		pg = ns.runsOn(ctx, "ledger", 1)
		ns.hasAllRows(ctx, "ledger", writer)
		ns.archived(ctx, pg.Status.Primary)
		ns.archiving(ctx, "ledger", HavePrefix("True "))
	}, SpecTimeout(10*time.Minute))

	It("restores to the last commit after the PostgreSQL was deleted with its volumes", func(ctx SpecContext) {
		ns.run(ctx, "delete", "postgresql", "ledger")
		ns.run(ctx, "wait", "--for=delete", "pod/ledger-0", "pod/ledger-1", "pvc/data-ledger-0", "pvc/data-ledger-1", "pvc/data-3-ledger-0", "backup/ledger", "--timeout=300s")

		ns.recoverTo(ctx, "now", "location: "+inline(backupv1alpha1.BackupLocation{Destination: s3Store.destination(stores), Backup: "ledger"}))
		ns.databaseReady(ctx, "now")
		found := ns.hasAllRows(ctx, "now", writer)
		Expect(len(found.Servers)).To(BeNumerically(">", 2), "there were no two failovers")
	}, SpecTimeout(10*time.Minute))
}

// archiving waits for the condition Archiving of a PostgreSQL.
func (n namespaced) archiving(ctx context.Context, name string, want OmegaMatcher) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) (string, error) {
		pg := &databasev1alpha1.PostgreSQL{}
		if err := k8s.Get(ctx, client.ObjectKey{Namespace: n.name, Name: name}, pg); err != nil {
			return "", err
		}
		c := meta.FindStatusCondition(pg.Status.Conditions, "Archiving")
		if c == nil {
			return "none", nil
		}
		return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message), nil
	}).WithTimeout(later).Should(want)
}

// failOver deletes the primary's pod, and waits until another one acknowledges rows and the PostgreSQL is Ready again.
func (n namespaced) failOver(ctx context.Context, name string, writer *acks.Writer) {
	GinkgoHelper()
	before := n.recovered(ctx, name).Status.Primary
	n.run(ctx, "delete", "pod", before, "--grace-period=1", "--wait=false")
	Eventually(ctx, func(ctx context.Context) (string, error) {
		pg := &databasev1alpha1.PostgreSQL{}
		err := k8s.Get(ctx, client.ObjectKey{Namespace: n.name, Name: name}, pg)
		return pg.Status.Primary, err
	}).WithTimeout(later).ShouldNot(Or(BeEmpty(), Equal(before)), "no other instance is primary")
	n.recovered(ctx, name)
	at := time.Now()
	Eventually(ctx, func() time.Time { return writer.FirstAfter(at) }).WithTimeout(later).ShouldNot(BeZero(), "no row is acknowledged")
}

// switchWAL ends the primary's WAL file, and returns the file's name.
func (n namespaced) switchWAL(ctx context.Context, primary string) string {
	GinkgoHelper()
	output, err := n.trySwitchWAL(ctx, primary)
	Expect(err).NotTo(HaveOccurred())
	lines := strings.Fields(output)
	return lines[len(lines)-1]
}

func (n namespaced) trySwitchWAL(ctx context.Context, primary string) (string, error) {
	return n.try(ctx, "exec", primary, "--", "psql", "-qtAX", "-d", "postgres",
		"-c", "select pg_create_restore_point('e2e')", "-c", "select pg_walfile_name(pg_switch_wal())")
}

// archived waits until all that the primary has written so far is in the store.
func (n namespaced) archived(ctx context.Context, primary string) {
	GinkgoHelper()
	name := n.switchWAL(ctx, primary)
	n.shows(ctx, Equal("t\n"), "exec", primary, "--", "psql", "-qtAX", "-d", "postgres", "-c", "select last_archived_wal >= '"+name+"' from pg_stat_archiver")
}

// recoverTo creates a PostgreSQL from a backup; recovery is YAML in one line.
func (n namespaced) recoverTo(ctx context.Context, name, recovery string) {
	GinkgoHelper()
	n.postgreSQL(ctx, name, "deletionPolicy: Delete, bootstrap: {recovery: {"+recovery+"}}")
}

// runsOn waits until a PostgreSQL is Ready on the volumes with this number, and returns it.
func (n namespaced) runsOn(ctx context.Context, name string, volumes int) *databasev1alpha1.PostgreSQL {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) (int32, error) {
		pg := &databasev1alpha1.PostgreSQL{}
		err := k8s.Get(ctx, client.ObjectKey{Namespace: n.name, Name: name}, pg)
		return pg.Status.Volumes, err
	}).WithTimeout(later).Should(BeEquivalentTo(volumes))
	return n.recovered(ctx, name)
}

// hasAllRows checks that a PostgreSQL has every row that was acknowledged to the writer, once.
func (n namespaced) hasAllRows(ctx context.Context, name string, writer *acks.Writer) acks.Report {
	GinkgoHelper()
	conn := connect(ctx, n.database(ctx, name))
	defer conn.Close(ctx)
	found, err := acks.Compare(ctx, conn, writer)
	Expect(err).NotTo(HaveOccurred())
	report(fmt.Sprintf("%s: %d rows acknowledged by %d primaries, %d found", name, found.Acknowledged, len(found.Servers), found.Found))
	Expect(found.Lost).To(BeZero(), "acknowledged rows are missing")
	Expect(found.Duplicated).To(BeZero(), "rows are there twice")
	return found
}

// hasRowsUntil checks that a PostgreSQL has the writer's rows up to a time, without a gap and no later ones. The row that was under way at
// that time may be there.
func (n namespaced) hasRowsUntil(ctx context.Context, name string, writer *acks.Writer, until time.Time) {
	GinkgoHelper()
	last := int64(-1)
	for _, e := range writer.Entries() {
		if e.Acknowledged && !e.Answered.After(until) {
			last = e.Row
		}
	}
	conn := connect(ctx, n.database(ctx, name))
	defer conn.Close(ctx)
	result, err := conn.Query(ctx, "select row from acks_rows where client = $1 order by row", writer.Name())
	Expect(err).NotTo(HaveOccurred())
	rows, err := pgx.CollectRows(result, pgx.RowTo[int64])
	Expect(err).NotTo(HaveOccurred())
	report(fmt.Sprintf("%d rows acknowledged before the target, %d restored", last+1, len(rows)))
	Expect(last).To(BeNumerically(">", 100), "too few rows before the target")
	Expect(len(rows)).To(Or(BeEquivalentTo(last+1), BeEquivalentTo(last+2)))
	for i, row := range rows {
		Expect(row).To(BeEquivalentTo(i), "a row is missing before this one, or there twice")
	}
}
