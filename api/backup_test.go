package api_test

import (
	"slices"
	"strings"
)

const (
	backupSmallest  = `{postgresRef: db, destination: {uri: "s3://shop"}}`
	restoreSmallest = `{from: {backup: shop}, to: {postgresRef: db}}`
)

// backupOf is a spec of a Backup with this field.
func backupOf(field string) string { return field }

// source is a spec of a Backup of another server, with these fields of its connection.
func source(fields string) string {
	return "postgresRef: null\nsource: {type: mysql, connection: {host: db.example.com, " + fields + "}}"
}

// login completes the fields of a connection.
func login(field string) string { return source("database: shop, username: backup, " + field) }

// sources are specs of sources, one for each of the fields.
func sources(of func(string) string, fields ...string) []string {
	for i := range fields {
		fields[i] = of(fields[i])
	}
	return fields
}

var backupRules = slices.Concat([]rule{
	{[]string{login(`port: 3307`)}, []string{`postgresRef: null`, `source: {type: mysql, connection: {host: a, database: b, username: c}}`},
		"spec", "spec: must have one of postgresRef"},
	{[]string{`method: Physical`}, []string{login(`port: 1`) + "\nmethod: Physical"}, "spec", "method: Physical needs postgresRef"},
	{[]string{`encryption: {recipients: [` + recipient + `]}`}, []string{"method: Physical\nencryption: {recipients: [" + recipient + "]}"},
		"spec", "encryption: only Logical backups"},
	{[]string{`retentionPolicy: {daily: 7}`}, []string{"retention: 7d\nretentionPolicy: {daily: 7}"}, "spec", "retention: must not be set beside retentionPolicy"},
	{[]string{`postgresRef: my-db`}, []string{`postgresRef: My`, `postgresRef: "../x"`}, "spec.postgresRef", "postgresRef: must be the name of a PostgreSQL"},
	{[]string{`schedule: "0 2 * * *"`}, []string{`schedule: "TZ=UTC 0 2 * * *"`}, "spec.schedule", "schedule: must not contain a time zone"},
	{[]string{`timeZone: Europe/Berlin`, `timeZone: Etc/GMT+1`}, []string{`timeZone: Local`, `timeZone: ../../etc/passwd`, `timeZone: "a b"`},
		"spec.timeZone", "timeZone: must be a name"},
	// Attack 47: a retention that keeps nothing.
	{[]string{`retention: 1c`}, []string{`retention: "-1d"`, `retention: 0c`}, "spec.retention", "retention: must be a number with a unit"},
	{[]string{`encryption: {recipients: [` + recipient + `]}`}, []string{`encryption: {recipients: [age1short]}`, `encryption: {recipients: ["AGE-SECRET-KEY-1"]}`},
		"spec.encryption.recipients", "recipients: each must be the public key"},
	{[]string{`pod: {image: "docker.io/library/postgres:16"}`}, []string{`pod: {image: "a b"}`, `pod: {image: "-x"}`}, "spec.pod.image", "image: must be an image reference"},
	{[]string{`verify: {schedule: "@weekly"}`}, []string{`postgresRef: null` + "\nsource: {type: mongodb, connection: {host: a, database: b}}\nverify: {schedule: \"@weekly\"}"},
		"spec", "verify: backups of MongoDB cannot be verified"},
}, serverRules("spec.source", source, login), scheduleRules("spec", backupOf), verifyRules("spec.verify", func(v string) string { return "verify: " + v }),
	destinationRules("spec.destination", func(d string) string { return "destination: " + d }))

const recipient = "age1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq"

// serverRules are the rules of a database server at a path. spec returns a spec with these fields of the connection, complete one with a
// database and a login too.
func serverRules(path string, spec, complete func(string) string) []rule {
	connection := path + ".connection"
	return []rule{
		{sources(spec, `database: a, username: b`), sources(spec, `database: a`), path, "connection: username, credentialsSecretRef or uriSecretRef must be set"},
		{sources(spec, `databases: [a, b], username: c`), sources(spec, `username: c`, `database: a, databases: [b], username: c`),
			connection, "connection: must have one of database and databases"},
		{sources(spec, `host: null, uriSecretRef: {name: shop-db}`, `host: null, uriSecretRef: {name: shop-db, key: url}, databases: [a, b]`),
			sources(spec, `uriSecretRef: {name: shop-db}`, `host: null, database: a, username: b`), connection, "connection: must have one of host and uriSecretRef"},
		{sources(spec, `host: null, uriSecretRef: {name: shop-db}, tls: {caSecretRef: {name: ca}}`), sources(spec, `host: null, uriSecretRef: {name: a}, port: 1`,
			`host: null, uriSecretRef: {name: a}, username: b`, `host: null, uriSecretRef: {name: a}, tls: {mode: require}`), connection, "connection: port, username, credentialsSecretRef and tls.mode must not be set"},
		{sources(complete, `host: "2001:db8::1"`, `host: db-1.example.com`), sources(complete, `host: "a:5432"`, `host: "a/b"`, `host: "-h"`), connection + ".host", "host: must be a DNS name"},
		{sources(spec, `database: my-shop.1, username: a`), sources(spec, `database: "--all-databases", username: a`, `database: "a/../b", username: a`, `database: "a..b", username: a`),
			connection + ".database", "database: must be a name"},
		{sources(spec, `database: a, username: "app@x"`), sources(spec, `database: a, username: "a\nb"`), connection + ".username", "username: must not contain control characters"},
		{sources(complete, `credentialsSecretRef: {name: shop-db}`), sources(complete, `credentialsSecretRef: {name: Shop}`),
			connection + ".credentialsSecretRef.name", "name: must be the name of a Secret"},
		{sources(complete, `credentialsSecretRef: {name: a, usernameKey: user.name}`), sources(complete, `credentialsSecretRef: {name: a, usernameKey: a/b}`),
			connection + ".credentialsSecretRef.usernameKey", "usernameKey: must be a key"},
		{sources(complete, `credentialsSecretRef: {name: a, passwordKey: pass.word}`), sources(complete, `credentialsSecretRef: {name: a, passwordKey: ..}`),
			connection + ".credentialsSecretRef.passwordKey", "passwordKey: must be a key"},
		{sources(complete, `tls: {mode: verify-full, caSecretRef: {name: ca}}`, `tls: {mode: require}`), sources(complete, `tls: {mode: verify-full}`, `tls: {mode: verify-ca}`),
			connection + ".tls", "tls: modes verify-ca and verify-full need caSecretRef"},
	}
}

// verifyRules are the rules of verifications at a path.
func verifyRules(path string, of func(string) string) []rule {
	return slices.Concat([]rule{
		{sources(of, `{schedule: "0 6 * * 0"}`, `{schedule: "@weekly"}`), sources(of, `{schedule: weekly}`, `{schedule: "TZ=UTC 0 2 * * *"}`),
			path + ".schedule", "verify.schedule: must be a cron expression"},
		{sources(of, `{schedule: "@daily", identitySecretRef: {name: age, key: key.txt}}`), sources(of, `{schedule: "@daily", identitySecretRef: {name: age, key: a/b}}`),
			path + ".identitySecretRef.key", "key: must be a key of a Secret"},
	}, temporaryRules(path, func(t string) string { return of(`{schedule: "@daily", ` + t + `}`) }))
}

// temporaryRules are the rules of a temporary server at a path.
func temporaryRules(path string, of func(string) string) []rule {
	return []rule{
		{sources(of, `query: "SELECT 1", expect: "1"`), sources(of, `expect: "1"`), path, "expect: needs query"},
		{sources(of, `storage: 20Gi, storageClassName: fast`), sources(of, `storageClassName: fast`), path, "storageClassName: needs storage"},
		{sources(of, `storage: 1Gi`), sources(of, `storage: 1M`), path + ".storage", "storage: must be at least 1Gi"},
		{sources(of, `storage: 1Gi, storageClassName: fast.ssd`), sources(of, `storage: 1Gi, storageClassName: Fast`),
			path + ".storageClassName", "storageClassName: must be the name of a StorageClass"},
	}
}

var backupChanges = []change{
	{``, `{retention: 7d, method: Logical}`, []string{`method: Physical`}, "method: cannot be changed"},
}

var backupRunRules = []rule{
	{[]string{`backup: my-shop`}, []string{`backup: Shop`, `backup: "../x"`}, "spec.backup", "backup: must be the name of a Backup"},
}

var backupRunChanges = []change{
	{``, `{}`, []string{`backup: other`}, "spec: cannot be changed"},
}

// fromPlace is a spec of a Restore from a location with this field.
func fromPlace(field string) string {
	return "from: {location: {destination: {uri: \"s3://shop\"}, backup: shop, " + field + "}}"
}

// into is a spec of a Restore into a server with these fields of the connection.
func into(fields string) string {
	return "to: {server: {type: mysql, connection: {host: db.example.com, " + fields + "}}}"
}

var restoreRules = slices.Concat([]rule{
	{[]string{`from: {run: a}`, fromPlace(`run: a`)}, []string{`from: {}`, `from: {run: a, backup: b}`}, "spec.from", "from: must have one of"},
	{[]string{`from: {backup: a}`}, []string{`from: {backup: A}`, `from: {backup: "../x"}`}, "spec.from.backup", "backup: must be the name of a Backup"},
	{[]string{`from: {run: a}`}, []string{`from: {run: A}`, `from: {run: a/b}`}, "spec.from.run", "run: must be the name of a BackupRun"},
	// Attack 43: a location outside of the folder of a Backup.
	{[]string{fromPlace(`namespace: other`)}, []string{fromPlace(`namespace: ".."`), fromPlace(`namespace: "a/b"`)}, "spec.from.location.namespace", "namespace: must be the name of a namespace"},
	{[]string{`to: {postgresRef: a}`, `to: {temporary: {}}`}, []string{`to: {}`, `to: {postgresRef: a, temporary: {}}`}, "spec.to", "to: must have one of"},
	{[]string{fromPlace(`run: a`) + "\nto: {temporary: {}}\npod: {image: postgres}"}, []string{fromPlace(`run: a`) + "\nto: {temporary: {}}"},
		"spec", "pod.image: must be set for a temporary server"},
	{[]string{`to: {postgresRef: a}`}, []string{`to: {postgresRef: A}`}, "spec.to.postgresRef", "postgresRef: must be the name of a PostgreSQL"},
	{[]string{`overwrite: db`, into(`database: a, username: b`) + "\noverwrite: a", into(`databases: [a, b], username: c`) + "\noverwrite: db.example.com",
		into(`host: null, uriSecretRef: {name: shop-db}`) + "\noverwrite: shop-db"},
		[]string{`overwrite: other`, `overwrite: "true"`, "to: {temporary: {}}\noverwrite: db", into(`databases: [a, b], username: c`) + "\noverwrite: a"}, "spec", "overwrite: must be the name of the target"},
	{[]string{`identitySecretRef: {name: age, key: key.txt}`}, []string{`identitySecretRef: {name: age, key: a/b}`}, "spec.identitySecretRef.key", "key: must be a key of a Secret"},
	{[]string{`pod: {image: "postgres:16"}`}, []string{`pod: {image: "a b"}`}, "spec.pod.image", "image: must be an image reference"},
	{[]string{inPlace(`targetLSN: 0/1`)}, []string{`targetImmediate: true`, `targetTime: "2026-03-01T12:00:00Z"`, into(`database: a, username: b`) + "\noverwrite: a\ntargetXID: \"7\""},
		"spec", "targetTime and the like: need to.postgresRef and overwrite"},
}, targetRules("spec", "spec", inPlace), temporaryRules("spec.to.temporary", func(t string) string { return "to: {temporary: {" + t + "}}" }), serverRules("spec.to.server", into, func(field string) string { return into("database: shop, username: backup, " + field) }),
	destinationRules("spec.from.location.destination", func(d string) string { return "from: {location: {backup: shop, destination: " + d + "}}" }))

// inPlace is a spec of a Restore of a PostgreSQL in place, with these targets.
func inPlace(targets string) string {
	return "overwrite: db\n" + strings.ReplaceAll(targets, ", ", "\n")
}

var restoreChanges = []change{
	{``, `{}`, []string{`from: {backup: other}`}, "spec: cannot be changed"},
}

// backupNames are names of objects of these kinds, of at most so many characters.
func backupNames(most int) map[string]bool {
	return map[string]bool{"shop": true, "1": true, strings.Repeat("a", most): true, strings.Repeat("a", most+1): false, "shop.web": false}
}
