package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"sync"
	"time"

	"filippo.io/age"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
)

var (
	backupKind    = backupv1alpha1.GroupVersion.WithKind("Backup")
	backupRunKind = backupv1alpha1.GroupVersion.WithKind("BackupRun")
	restoreKind   = backupv1alpha1.GroupVersion.WithKind("Restore")
)

// backupSpecs need the object stores of the local cluster's registry.
func backupSpecs() {
	BeforeEach(func() {
		if !local {
			Skip("the images of the object stores exist only on the local cluster (`make up`)")
		}
	})
	Describe("of three databases in three object stores", Ordered, ContinueOnFailure, logicalBackupSpecs)
	Describe("of a PostgreSQL with its WAL", Ordered, physicalBackupSpecs)
}

// backup applies a Backup; more is what comes under "spec:" beside destination, as YAML in one line.
func (n namespaced) backup(ctx context.Context, name string, to backupv1alpha1.Destination, more string) {
	GinkgoHelper()
	n.apply(ctx, backupManifest(name, to, more))
}

func backupManifest(name string, to backupv1alpha1.Destination, more string) string {
	return fmt.Sprintf("apiVersion: backup.fettle.dev/v1alpha1\nkind: Backup\nmetadata: {name: %s}\nspec: {destination: %s, %s}\n", name, inline(to), more)
}

// restore applies a Restore; the arguments are YAML in one line.
func (n namespaced) restore(ctx context.Context, name, from, to, more string) {
	GinkgoHelper()
	n.apply(ctx, restoreManifest(name, from, to, more))
}

func restoreManifest(name, from, to, more string) string {
	return fmt.Sprintf("apiVersion: backup.fettle.dev/v1alpha1\nkind: Restore\nmetadata: {name: %s}\nspec: {from: %s, to: %s, %s}\n", name, from, to, more)
}

// inline returns a value as YAML in one line.
func inline(value any) string {
	GinkgoHelper()
	raw, err := json.Marshal(value)
	Expect(err).NotTo(HaveOccurred())
	return string(raw)
}

// backUpNow creates a BackupRun and waits until it is Ready.
func (n namespaced) backUpNow(ctx context.Context, name, backup string) {
	GinkgoHelper()
	n.apply(ctx, backupRunManifest(name, backup))
	n.becomesReady(ctx, backupRunKind, name)
}

func backupRunManifest(name, backup string) string {
	return fmt.Sprintf("apiVersion: backup.fettle.dev/v1alpha1\nkind: BackupRun\nmetadata: {name: %s}\nspec: {backup: %s}\n", name, backup)
}

// backupStatus returns the status of a Backup.
func (n namespaced) backupStatus(ctx context.Context, name string) backupv1alpha1.BackupStatus {
	GinkgoHelper()
	b := &backupv1alpha1.Backup{}
	Expect(k8s.Get(ctx, client.ObjectKey{Namespace: n.name, Name: name}, b)).To(Succeed())
	return b.Status
}

// says waits until a condition of an object has a status, a reason and a message that a person can act on.
func (n namespaced) says(ctx context.Context, name string, condition func(context.Context) (string, error), want, message string) {
	GinkgoHelper()
	Eventually(ctx, condition).WithTimeout(later).Should(And(HavePrefix(want+": "), MatchRegexp(message)), name)
}

func logicalBackupSpecs() {
	var ns, stores namespaced
	var identity *age.X25519Identity
	digests := map[string]string{}
	scheduled := time.Now()

	BeforeAll(func(ctx SpecContext) {
		stores, ns = newNamespace(ctx, restricted), newNamespace(ctx, restricted)
		var starts sync.WaitGroup
		starts.Go(func() {
			defer GinkgoRecover()
			stores.startStores(ctx, objectStores...)
		})
		startSources(ctx, ns, "shop")
		starts.Wait()
		var err error
		identity, err = age.GenerateX25519Identity()
		Expect(err).NotTo(HaveOccurred())
		ns.run(ctx, "create", "secret", "generic", "age-key", "--from-literal=identity="+identity.String())
		ns.createServerLogin(ctx)
		for _, store := range objectStores {
			ns.useStore(ctx, stores, store)
		}
		createAzureContainer(ctx, stores)
		for _, source := range sources {
			source.fill(ctx, ns, "shop")
			digests[source.name] = source.digest(ctx, ns, "shop")
			Expect(digests[source.name]).To(HavePrefix(fmt.Sprint(dumpedRows)))
		}
		// Next minute. The specs below check the run when they are done with the rest.
		scheduled = time.Now().UTC().Add(90 * time.Second).Truncate(time.Minute)
		ns.backup(ctx, "nightly", s3Store.destination(stores), fmt.Sprintf(`postgresRef: postgres, schedule: "%d %d * * *", retention: 1c`, scheduled.Minute(), scheduled.Hour()))
	}, NodeTimeout(10*time.Minute))

	It("backs up each database to each store", func(ctx SpecContext) {
		begun := time.Now()
		more := map[string]string{"s3": "compression: zstd", "gcs": "compression: gzip",
			"azure": "compression: none, encryption: {recipients: [" + identity.Recipient().String() + "]}"}
		eachCell(func(source source, store objectStore) {
			ns.backup(ctx, source.name+"-"+store.name, store.destination(stores), source.from(ns, "shop")+", "+more[store.name])
		})
		eachCell(func(source source, store objectStore) {
			name := source.name + "-" + store.name
			ns.becomesReady(ctx, backupKind, name)
			status := ns.backupStatus(ctx, name)
			Expect(status.LastSizeBytes).To(BeNumerically(">", dumpedRows*32), name)
			Expect(status.LastLocation).To(ContainSubstring("/e2e/"+ns.name+"/"+name+"/runs/"), name)
			Expect(status.LastSuccessfulRun).NotTo(BeEmpty(), name)
		})
		report(fmt.Sprintf("9 backups in %.0f s", time.Since(begun).Seconds()))
	}, SpecTimeout(10*time.Minute))

	It("verifies dumps in temporary servers", func(ctx SpecContext) {
		begun := time.Now()
		checked := map[string]string{"postgres-s3": "postgres", "mysql-gcs": "mysql"}
		for backup, name := range checked {
			ns.restore(ctx, "check-"+name, "{backup: "+backup+"}", fmt.Sprintf(`{temporary: {query: select count(*) from goods, expect: "%d"}}`, dumpedRows), "")
		}
		for _, name := range checked {
			ns.becomesReady(ctx, restoreKind, "check-"+name)
			ns.shows(ctx, Equal(fmt.Sprintf("1 %d", dumpedRows)), "get", "restore", "check-"+name, "-o", "jsonpath={.status.result.tables} {.status.result.rows}")
		}
		report(fmt.Sprintf("2 dumps verified in %.0f s", time.Since(begun).Seconds()))
	}, SpecTimeout(5*time.Minute))

	It("shows what a person looks for", func(ctx SpecContext) {
		ns.shows(ctx, MatchRegexp(`(?m)^NAME +READY +STATUS +REASON +SCHEDULE +LAST-SUCCESS +NEXT-RUN +AGE *$`), "get", "backups")
		ns.shows(ctx, MatchRegexp(`(?m)^mysql-gcs +True +Completed +\S+ +\d+s? +`), "get", "bkp")
		ns.shows(ctx, MatchRegexp(`(?m)^\S+ +True +Succeeded +Succeeded +mongo-s3 +100 +\d+ +`), "get", "backupruns")
	})

	It("restores each of them after the servers and their data were deleted", func(ctx SpecContext) {
		begun := time.Now()
		run := map[string]string{}
		for _, source := range sources {
			run[source.name] = ns.backupStatus(ctx, source.name+"-gcs").LastSuccessfulRun
			ns.run(ctx, "delete", "backup", source.name+"-azure") // its backups stay
		}
		parallel(func(source source) { source.stop(ctx, ns) })
		var databases []string
		for _, store := range objectStores {
			databases = append(databases, restored(store))
		}
		startSources(ctx, ns, databases...)
		eachCell(func(source source, store objectStore) {
			from := map[string]string{
				"s3":    "{backup: " + source.name + "-s3}",
				"gcs":   "{run: " + run[source.name] + "}",
				"azure": inline(backupv1alpha1.RestoreSource{Location: &backupv1alpha1.BackupLocation{Destination: store.destination(stores), Backup: source.name + "-azure"}}),
			}
			ns.restore(ctx, source.name+"-"+store.name, from[store.name], source.to(ns, restored(store)), "identitySecretRef: {name: age-key}, "+restoreImage(source))
		})
		eachCell(func(source source, store objectStore) {
			ns.becomesReady(ctx, restoreKind, source.name+"-"+store.name)
			Expect(source.digest(ctx, ns, restored(store))).To(Equal(digests[source.name]), "%s from %s", source.name, store.name)
		})
		report(fmt.Sprintf("new servers and 9 restores in %.0f s", time.Since(begun).Seconds()))
	}, SpecTimeout(10*time.Minute))

	It("restores into a database with data only if its name is repeated", func(ctx SpecContext) {
		for _, source := range sources {
			ns.restore(ctx, source.name+"-refused", "{backup: "+source.name+"-s3}", source.to(ns, "shop"), restoreImage(source))
		}
		for _, source := range sources {
			name := source.name + "-refused"
			ns.says(ctx, name, ns.state(restoreKind, name, fettlev1.Ready), "False TargetNotEmpty", `shop.*overwrite`)
			Expect(source.digest(ctx, ns, "shop")).To(Equal(digests[source.name]))
		}
		Expect(ns.rejection(restoreManifest("wrong", "{backup: postgres-s3}", "{postgresRef: postgres}", "overwrite: other"), "apply", "-f", "-")(ctx)).
			To(ContainSubstring("overwrite: must be the name of the target"))

		ns.psql(ctx, "shop", "set role shop; delete from goods where id > 500; create table later()")
		ns.mysql(ctx, "shop", "delete from goods where id > 500; create table later(a int)")
		for name, target := range map[string]string{"postgres": "postgres", "mysql": "shop"} {
			source := sources[map[string]int{"postgres": 0, "mysql": 1}[name]]
			ns.restore(ctx, name+"-overwrite", "{backup: "+name+"-s3}", source.to(ns, "shop"), "overwrite: "+target)
		}
		for _, source := range sources[:2] {
			ns.becomesReady(ctx, restoreKind, source.name+"-overwrite")
			Expect(source.digest(ctx, ns, "shop")).To(Equal(digests[source.name]))
		}
		Expect(ns.psql(ctx, "shop", "select to_regclass('later') is null")).To(Equal("t"), "the table from after the backup is still there")
	}, SpecTimeout(5*time.Minute))

	Describe("that cannot succeed", func() { refusedBackupSpecs(&ns, &stores) })

	It("runs on schedule, keeps what retention asks for, and stops when it is suspended", func(ctx SpecContext) {
		folder := "e2e/" + ns.name + "/nightly"
		ns.becomesReady(ctx, backupKind, "nightly")
		first := "nightly-" + scheduled.Format("200601021504")
		status := ns.backupStatus(ctx, "nightly")
		Expect(status.LastSuccessfulRun).To(Equal(first))
		Expect(status.NextRunTime.UTC()).To(Equal(scheduled.AddDate(0, 0, 1)))
		Eventually(ctx, stores.objects(s3Store, folder)).Should(ContainElement("runs/" + first + "/manifest.json"))

		ns.backUpNow(ctx, "by-hand", "nightly")
		found, err := stores.objects(s3Store, folder)(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(found).To(ContainElement("runs/by-hand/manifest.json"))
		Expect(found).NotTo(ContainElement(ContainSubstring(first)), "retention: 1c keeps one backup")

		ns.run(ctx, "patch", "backup", "nightly", "--type=merge", "-p", `{"spec":{"suspend":true}}`)
		ns.shows(ctx, Equal("Suspended "), "get", "backup", "nightly", "-o", "jsonpath={.status.phase} {.status.nextRunTime}")
	}, SpecTimeout(2*later)) // longer than each wait, whose failure says what it waited for
}

// s3Store is the store of what does not depend on its type.
var s3Store = objectStores[0]

// restored is the name of the database to restore into from a store.
func restored(store objectStore) string {
	if store.name == "s3" {
		return "shop"
	}
	return "shop_" + store.name
}

// restoreImage sets the image of a Restore into a PostgreSQL server, since the default is a version that the registry lacks.
func restoreImage(source source) string {
	if source.name != "postgres" {
		return ""
	}
	return "pod: {image: docker.io/library/postgres:" + postgresVersion + "}"
}

func eachCell(do func(source, objectStore)) {
	for _, source := range sources {
		for _, store := range objectStores {
			do(source, store)
		}
	}
}

// parallel does something with all sources at a time.
func parallel(do func(source)) {
	GinkgoHelper()
	var all sync.WaitGroup
	for _, source := range sources {
		all.Go(func() {
			defer GinkgoRecover()
			do(source)
		})
	}
	all.Wait()
}

// startSources runs the servers, with empty databases.
func startSources(ctx context.Context, ns namespaced, databases ...string) {
	GinkgoHelper()
	parallel(func(source source) {
		source.start(ctx, ns, databases...)
		source.ready(ctx, ns)
	})
}

// refusedBackupSpecs are what users get wrong, and read afterwards.
func refusedBackupSpecs(ns, stores *namespaced) {
	cases := []struct {
		name, reason, message string
		change                func(d *backupv1alpha1.Destination)
	}{
		{"wrong-key", backupv1alpha1.ReasonStoreForbidden, `Secret|key`, func(d *backupv1alpha1.Destination) { d.CredentialsSecretRef.Name = "wrong-keys" }},
		{"no-bucket", backupv1alpha1.ReasonBucketMissing, `nowhere`, func(d *backupv1alpha1.Destination) { d.Bucket = "nowhere" }},
		{"no-store", backupv1alpha1.ReasonStoreUnreachable, `nothing\.`, func(d *backupv1alpha1.Destination) { d.Endpoint = "https://" + ns.host("nothing") + ":7070" }},
		{"no-ca", backupv1alpha1.ReasonStoreUntrusted, `caSecretRef`, func(d *backupv1alpha1.Destination) { d.CASecretRef = nil }},
		{"no-secret", backupv1alpha1.ReasonSourceSecretMissing, `missing-keys`, func(d *backupv1alpha1.Destination) { d.CredentialsSecretRef.Name = "missing-keys" }},
		{"metadata-service", backupv1alpha1.ReasonStoreInvalid, `169\.254\.169\.254`, func(d *backupv1alpha1.Destination) { d.Endpoint = "http://169.254.169.254" }},
	}
	It("says what is wrong and what to do, and stores nothing", func(ctx SpecContext) {
		ns.run(ctx, "create", "secret", "generic", "wrong-keys", "--from-literal=access-key-id="+storeUser, "--from-literal=secret-access-key=wrong")
		for _, c := range cases {
			to := s3Store.destination(*stores)
			c.change(&to)
			ns.backup(ctx, c.name, to, mysqlSource.from(*ns, "shop")+", retries: 0")
		}
		for _, c := range cases {
			ns.says(ctx, c.name, ns.state(backupKind, c.name, fettlev1.Ready), "False "+c.reason, c.message)
			Expect(ns.backupStatus(ctx, c.name).LastSuccessfulTime).To(BeNil())
			shown, err := ns.quietly(ctx, "get", "backup,backuprun,events", "-o", "yaml")
			Expect(err).NotTo(HaveOccurred())
			Expect(shown).NotTo(Or(ContainSubstring(storeSecret), ContainSubstring("X-Amz-Signature"), ContainSubstring(serverPassword)))
		}
	}, SpecTimeout(5*time.Minute))

	It("leaves no way to the backups of others", func(ctx SpecContext) { // attacks 43 and 45
		d := func(change func(d *backupv1alpha1.Destination)) backupv1alpha1.Destination {
			to := s3Store.destination(*stores)
			change(&to)
			return to
		}
		for field, to := range map[string]backupv1alpha1.Destination{
			"prefix": d(func(d *backupv1alpha1.Destination) { d.Prefix = "../../other-tenant" }),
			"bucket": d(func(d *backupv1alpha1.Destination) { d.Bucket = "backups/../other" }),
			"uri": d(func(d *backupv1alpha1.Destination) {
				d.Type, d.Bucket, d.Prefix, d.URI = "", "", "", "s3://backups/a/../../other/"
			}),
			"name": d(func(d *backupv1alpha1.Destination) { d.CredentialsSecretRef.Name = "../" + stores.name + "/tls" }),
		} {
			Expect(ns.rejection(backupManifest("crafted", to, "postgresRef: postgres"), "apply", "-f", "-")(ctx)).To(ContainSubstring(field+": must be"), field)
		}
		for _, name := range []string{"../nightly", "nightly/runs", "..", `"$(id)"`} {
			Expect(ns.rejection(backupManifest(name, s3Store.destination(*stores), "postgresRef: postgres"), "apply", "-f", "-")(ctx)).NotTo(Equal("admitted"), name)
		}

		other := newNamespace(ctx, restricted)
		other.createServerLogin(ctx)
		mine := mysqlSource.to(*ns, "shop_gcs")
		other.restore(ctx, "by-name", "{backup: mysql-s3}", mine, "")
		other.says(ctx, "by-name", other.state(restoreKind, "by-name", fettlev1.Ready), "False BackupMissing", "mysql-s3")
		location := backupv1alpha1.RestoreSource{Location: &backupv1alpha1.BackupLocation{Destination: s3Store.destination(*stores), Namespace: ns.name, Backup: "mysql-s3"}}
		other.restore(ctx, "by-place", inline(location), mine, "")
		other.says(ctx, "by-place", other.state(restoreKind, "by-place", fettlev1.Ready), "False SecretMissing", regexp.QuoteMeta(s3Store.name)+"-(keys|ca)")
		Expect(other.run(ctx, "get", "pods", "-o", "name")).To(BeEmpty(), "a pod was started")
	}, SpecTimeout(5*time.Minute))
}
