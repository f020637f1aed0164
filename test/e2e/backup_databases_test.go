package e2e

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/url"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	corev1 "k8s.io/api/core/v1"
)

// Each database has this many rows of 2 KiB of binary data with text beside them.
const dumpedRows = 1000

// awkward is text that survives only correct quoting and encoding.
const awkward = `ÄÖ 日本語 🦆 \! touch /tmp/x \\ ' " %s`

// source is a database server to back up and to restore into.
type source struct {
	name string
	// start runs the server with empty databases of these names, stop removes it with its data.
	start func(ctx context.Context, n namespaced, databases ...string)
	ready func(ctx context.Context, n namespaced)
	stop  func(ctx context.Context, n namespaced)
	// fill writes rows into the database; digest identifies all of its rows.
	fill   func(ctx context.Context, n namespaced, database string)
	digest func(ctx context.Context, n namespaced, database string) string
	// from is the spec of a Backup, and to the target of a Restore, beside destination and from.
	from func(n namespaced, database string) string
	to   func(n namespaced, database string) string
}

var sources = []source{postgresSource, mysqlSource, mongoSource}

// postgresSource is a PostgreSQL of Fettle.
var postgresSource = source{
	name: "postgres",
	start: func(ctx context.Context, n namespaced, databases ...string) {
		var declared []string
		for _, name := range databases[1:] {
			declared = append(declared, "{name: "+name+"}")
		}
		n.postgreSQL(ctx, "postgres", fmt.Sprintf("deletionPolicy: Delete, databaseName: %s, databases: [%s]", databases[0], strings.Join(declared, ", ")))
	},
	ready: func(ctx context.Context, n namespaced) { n.databaseReady(ctx, "postgres") },
	stop: func(ctx context.Context, n namespaced) {
		n.run(ctx, "delete", "postgresql", "postgres")
		n.run(ctx, "wait", "--for=delete", "pod/postgres-0", "pvc/data-postgres-0", "secret/postgres-credentials", "--timeout=300s")
	},
	fill: func(ctx context.Context, n namespaced, database string) {
		n.psql(ctx, database, fmt.Sprintf(`set role shop;
create table goods(id int primary key, data bytea not null, words text, at timestamptz, parent int references goods);
insert into goods select i, decode(repeat(encode(sha512(i::text::bytea), 'hex'), 32), 'hex'), i || $a$%s$a$, '2026-01-01'::timestamptz + i * interval '1.5 s', nullif(i / 2, 0)
from generate_series(1, %d) i;
create index on goods(words); create view newest as select max(at) from goods; create sequence numbers; select setval('numbers', 4711)`, awkward, dumpedRows))
	},
	digest: func(ctx context.Context, n namespaced, database string) string {
		return n.psql(ctx, database, "select count(*), md5(string_agg(md5(g::text), '' order by id)), (select last_value from numbers), "+
			"(select max from newest), (select count(*) from pg_indexes where tablename = 'goods') from goods g")
	},
	from: func(_ namespaced, _ string) string { return "postgresRef: postgres" },
	to: func(n namespaced, database string) string {
		if database == "shop" {
			return "{postgresRef: postgres}"
		}
		return "{server: " + n.server("postgresql", "postgres", database, "shop", "postgres-credentials", ", tls: {mode: verify-full, caSecretRef: {name: postgres-credentials}}") + "}"
	},
}

// psql runs statements as the superuser in the pod, and returns the answer.
func (n namespaced) psql(ctx context.Context, database, statements string) string {
	GinkgoHelper()
	output, err := n.kubectl(ctx, statements, "exec", "-i", "postgres-0", "--", "psql", "-qtAX", "-v", "ON_ERROR_STOP=1", "-d", database)
	Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(output)
}

// server is a database server with credentials in a Secret, as YAML in one line.
func (n namespaced) server(kind, service, database, user, secret, more string) string {
	return fmt.Sprintf("{type: %s, connection: {host: %s, database: %s, username: %s, credentialsSecretRef: {name: %s}%s}}", kind, n.host(service), database, user, secret, more)
}

// mysqlSource is a server that Fettle does not manage, with data that ends with its pod.
var mysqlSource = source{
	name: "mysql",
	start: func(ctx context.Context, n namespaced, databases ...string) {
		n.databaseServer(ctx, "mysql", "docker.io/library/mysql:8.4", 3306, "/var/lib/mysql", corev1.EnvVar{Name: "MYSQL_ROOT_PASSWORD", Value: serverPassword})
		n.run(ctx, "rollout", "status", "deployment/mysql", "--timeout=300s")
		for _, name := range databases {
			n.mysql(ctx, "", "create database `"+name+"` character set utf8mb4")
		}
	},
	ready: func(context.Context, namespaced) {},
	stop: func(ctx context.Context, n namespaced) {
		n.run(ctx, "delete", "deployment,service", "mysql")
		n.run(ctx, "wait", "--for=delete", "pod", "-l", "app=mysql", "--timeout=300s")
	},
	fill: func(ctx context.Context, n namespaced, database string) {
		n.mysql(ctx, database, fmt.Sprintf(`create table goods(id int primary key, data longblob not null, words text, at datetime(6));
insert into goods with recursive n(i) as (select 1 union all select i + 1 from n where i < %d)
select i, repeat(unhex(sha2(i, 512)), 32), concat(i, '%s'), date_add('2026-01-01', interval i * 1500000 microsecond) from n;
create view newest as select max(at) from goods;
delimiter ;;
create procedure twice(a int) begin select 2 * a; end;;
delimiter ;`, dumpedRows, strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(awkward)))
	},
	digest: func(ctx context.Context, n namespaced, database string) string {
		return n.mysql(ctx, database, "set group_concat_max_len = 1000000; select count(*), md5(group_concat(md5(concat_ws('|', id, hex(data), hex(words), at)) order by id)), "+
			"(select * from newest) from goods; call twice(21)")
	},
	from: func(_ namespaced, database string) string {
		return fmt.Sprintf("source: {type: mysql, connection: {uriSecretRef: {name: server-login, key: mysql}, database: %s}}", database)
	},
	to: func(n namespaced, database string) string {
		return "{server: " + n.server("mysql", "mysql", database, "root", "server-login", "") + "}"
	},
}

// mysql runs statements as root in the pod, and returns the answer.
func (n namespaced) mysql(ctx context.Context, database, statements string) string {
	GinkgoHelper()
	output, err := n.kubectl(ctx, statements, "exec", "-i", "deployment/mysql", "--", "mysql", "-h127.0.0.1", "-uroot", "-p"+serverPassword, "--default-character-set=utf8mb4", "-N", database)
	Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(output)
}

// mongoSource is a server that Fettle does not manage, with data that ends with its pod.
var mongoSource = source{
	name: "mongo",
	start: func(ctx context.Context, n namespaced, _ ...string) {
		n.databaseServer(ctx, "mongo", "docker.io/library/mongo:8.0", 27017, "/data/db", corev1.EnvVar{Name: "MONGO_INITDB_ROOT_USERNAME", Value: "root"},
			corev1.EnvVar{Name: "MONGO_INITDB_ROOT_PASSWORD", Value: serverPassword})
	},
	ready: func(ctx context.Context, n namespaced) {
		n.run(ctx, "rollout", "status", "deployment/mongo", "--timeout=300s")
	},
	stop: func(ctx context.Context, n namespaced) {
		n.run(ctx, "delete", "deployment,service", "mongo")
		n.run(ctx, "wait", "--for=delete", "pod", "-l", "app=mongo", "--timeout=300s")
	},
	fill: func(ctx context.Context, n namespaced, database string) {
		var documents []any
		for i := range dumpedRows {
			sum := sha256.Sum256([]byte(fmt.Sprint(i)))
			documents = append(documents, bson.D{
				{Key: "_id", Value: int64(i)}, {Key: "data", Value: bson.Binary{Data: []byte(strings.Repeat(string(sum[:]), 64))}},
				{Key: "words", Value: fmt.Sprint(i, awkward)}, {Key: "at", Value: time.Unix(int64(i), 0)}, {Key: "nested", Value: bson.D{{Key: "list", Value: bson.A{i, "a", nil}}}},
			})
		}
		_, err := n.mongo(ctx).Database(database).Collection("goods").InsertMany(ctx, documents)
		Expect(err).NotTo(HaveOccurred())
	},
	digest: func(ctx context.Context, n namespaced, database string) string {
		found, err := n.mongo(ctx).Database(database).Collection("goods").Find(ctx, bson.D{}, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}))
		Expect(err).NotTo(HaveOccurred())
		rows, sum := 0, sha256.New()
		for ; found.Next(ctx); rows++ {
			sum.Write(found.Current)
		}
		Expect(found.Err()).NotTo(HaveOccurred())
		return fmt.Sprintf("%d|%x", rows, sum.Sum(nil))
	},
	from: func(n namespaced, database string) string {
		return "source: " + n.server("mongodb", "mongo", database, "root", "server-login", "")
	},
	to: func(_ namespaced, database string) string {
		return fmt.Sprintf("{server: {type: mongodb, connection: {uriSecretRef: {name: server-login, key: mongo}, database: %s}}}", database)
	},
}

// mongo connects to the server from this machine.
func (n namespaced) mongo(ctx context.Context) *mongo.Client {
	GinkgoHelper()
	address := n.run(ctx, "get", "service", "mongo", "-o", "jsonpath={.spec.clusterIP}:27017")
	c, err := mongo.Connect(options.Client().SetHosts([]string{address}).SetDirect(true).SetTimeout(soon).
		SetAuth(options.Credential{Username: "root", Password: serverPassword, AuthMechanism: "SCRAM-SHA-256"}))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) { _ = c.Disconnect(ctx) }) // the server may be gone
	return c
}

// serverPassword is the password of the servers that Fettle does not manage, as in the Secret "server-login".
const serverPassword = `it's "quoted" \ 50% $HOME`

// createServerLogin creates the Secret "server-login": the password, and a URI for each server.
func (n namespaced) createServerLogin(ctx context.Context) {
	GinkgoHelper()
	user := url.UserPassword("root", serverPassword)
	n.run(ctx, "create", "secret", "generic", "server-login", "--from-literal=password="+serverPassword,
		fmt.Sprintf("--from-literal=mysql=mysql://%s@%s/mysql", user, n.host("mysql")), fmt.Sprintf("--from-literal=mongo=mongodb://%s@%s:27017/?authSource=admin", user, n.host("mongo")))
}

// databaseServer runs a server of an official image as its user 999, with its data in the pod.
func (n namespaced) databaseServer(ctx context.Context, name, image string, port int, data string, env ...corev1.EnvVar) {
	GinkgoHelper()
	var variables []string
	for _, v := range env {
		variables = append(variables, fmt.Sprintf("{name: %s, value: %q}", v.Name, v.Value))
	}
	n.apply(ctx, fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec: {selector: {app: %[1]s}, ports: [{port: %[3]d}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      automountServiceAccountToken: false
      terminationGracePeriodSeconds: 1
      securityContext: {runAsNonRoot: true, runAsUser: 999, runAsGroup: 999, fsGroup: 999, seccompProfile: {type: RuntimeDefault}}
      containers:
      - name: server
        image: %[2]s
        env: [%[5]s]
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
        readinessProbe: {tcpSocket: {port: %[3]d}, periodSeconds: 1}
        volumeMounts: [{name: data, mountPath: %[4]s}, {name: run, mountPath: /run/mysqld}]
      volumes: [{name: data, emptyDir: {}}, {name: run, emptyDir: {}}]
`, name, image, port, data, strings.Join(variables, ", ")))
}
