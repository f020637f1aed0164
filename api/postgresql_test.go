package api_test

import (
	"strings"
	"testing"
)

// from is a spec that copies a server, with one field of that set.
func from(field string) string {
	name, _, _ := strings.Cut(field, ":")
	fields := []string{field}
	for _, usual := range []string{"host: a", "user: b", "passwordSecret: {name: old}", "caSecret: {name: old}"} {
		if !strings.HasPrefix(usual, name+":") {
			fields = append(fields, usual)
		}
	}
	return "bootstrap: {pgBasebackup: {" + strings.Join(fields, ", ") + "}}"
}

var postgreSQLRules = []rule{
	{[]string{`version: "16.4"`}, []string{`version: "12"`, `version: "19"`, `version: new`, `version: "16."`, `version: "16.04"`, `version: "16.x"`, `version: "9.6"`},
		"spec.version", "version: must be 13, 14, 15, 16, 17 or 18"},
	{[]string{`storage: 128Mi`}, []string{`storage: 127Mi`, `storage: 0`}, "spec.storage", "storage: must be at least 128Mi"},
	{[]string{`{replicas: 3, synchronous: {number: 2}}`}, []string{`{replicas: 2, synchronous: {number: 2}}`, `synchronous: {}`},
		"spec", "synchronous.number: must be below replicas"},
	{[]string{`{replicas: 3, preferredPrimary: "2"}`}, []string{`{replicas: 2, preferredPrimary: "2"}`, `{replicas: 2, preferredPrimary: demo-2}`},
		"spec", "preferredPrimary: there is no such instance"},
	{[]string{`{replicas: 3, preferredPrimary: demo-1}`}, []string{`{replicas: 3, preferredPrimary: demo}`, `{replicas: 3, preferredPrimary: "9"}`, `{replicas: 3, preferredPrimary: demo-12}`},
		"spec.preferredPrimary", "preferredPrimary: must be the name of a pod"},
	{[]string{`inheritedMetadata: {labels: {app.kubernetes.io/part-of: shop}}`}, []string{`inheritedMetadata: {labels: {app.kubernetes.io/name: a}}`, `inheritedMetadata: {labels: {fettle.dev/role: primary}}`},
		"spec.inheritedMetadata.labels", "labels: Fettle sets app"},
	{[]string{`inheritedMetadata: {annotations: {example.com/a: b}}`}, []string{`inheritedMetadata: {annotations: {fettle.dev/restart: a}}`},
		"spec.inheritedMetadata.annotations", "annotations: those of fettle.dev are reserved"},
	{[]string{`{replicas: 3, preferredPrimary: demo-0}`}, []string{`{replicas: 3, preferredPrimary: other-0}`, `{replicas: 3, preferredPrimary: demos-0}`},
		"<nil>", "preferredPrimary: must be the name of a pod of this PostgreSQL"},
	{[]string{`databases: [{name: other}]`}, []string{`databases: [{name: app}]`, `{databaseName: shop, databases: [{name: shop}]}`},
		"spec", "databases: must not list databaseName again"},
	{[]string{`{roles: [{name: app}], owner: {name: other}}`}, []string{`roles: [{name: app}]`, `{roles: [{name: other}], owner: {name: other}}`},
		"spec", "roles: must not list the owner of databaseName"},
	{[]string{`{owner: {name: other}, databases: [{name: a, owner: other}]}`}, []string{`{owner: {name: other}, databases: [{name: a, owner: app}]}`},
		"spec", "databases: each owner must be one of spec.roles"},
	{[]string{`owner: {passwordSecret: {name: mine}}`}, []string{`owner: {passwordSecret: {name: Mine}}`}, "spec.owner.passwordSecret.name", "name: must be the name of a Secret"},
	{[]string{`{roles: [{name: reader}], databases: [{name: a, owner: reader}, {name: b, owner: app}, {name: c}]}`},
		[]string{`databases: [{name: a, owner: reader}]`, `{roles: [{name: writer}], databases: [{name: a, owner: reader}]}`},
		"spec", "databases: each owner must be one of spec.roles"},
	{[]string{`autoGrow: {max: 1Gi}`}, []string{`autoGrow: {max: 1023Mi}`}, "spec", "autoGrow.max: must not be below storage"},
	{[]string{`{version: "15", bootstrap: {initdb: {icuLocale: de-DE}}}`}, []string{`{version: "14", bootstrap: {initdb: {icuLocale: de-DE}}}`},
		"spec", "bootstrap.initdb.icuLocale: needs version 15 or later"},
	{[]string{`databaseName: my_app2`}, []string{`databaseName: my-app`, `databaseName: App`, `databaseName: 2app`, `databaseName: app_`, `databaseName: "a b"`},
		"spec.databaseName", "name: must be lower-case letters"},
	{[]string{`databaseName: postgres2`}, []string{`databaseName: postgres`, `databaseName: template1`, `databaseName: streaming_replica`, `databaseName: pg_x`, `databaseName: fettle_x`, `databaseName: all`},
		"spec.databaseName", "name: is reserved by PostgreSQL or Fettle"},
	{[]string{`extensions: [uuid-ossp, pg_trgm]`}, []string{`extensions: ["a b"]`, `extensions: ["a;drop"]`, `extensions: [A]`},
		"spec.extensions[0]", "extension: must be the name of an extension"},
	{[]string{`extensions: [plpgsql, jsonb_plperl, plv8]`}, []string{`extensions: [plpython3u]`, `extensions: [file_fdw]`, `extensions: [adminpack]`, `extensions: [plperlu]`, `extensions: [jsonb_plpython3u]`, `extensions: [plsh]`},
		"spec.extensions[0]", "extension: lets its users out of the database"},
	{[]string{`parameters: {work_mem: 64MB, pg_stat_statements.max: "100"}`}, []string{`parameters: {"work mem": a}`, `parameters: {WORK_MEM: a}`, `parameters: {a.b.c: a}`, `parameters: {"a\nb": a}`},
		"spec.parameters", "parameters: each name must be that of a parameter"},
	{[]string{`parameters: {max_connections: 200, log_line_prefix: "%m [%p] 'x'"}`}, []string{"parameters: {work_mem: \"" + strings.Repeat("1", 1025) + "\"}"},
		"spec.parameters", "parameters: each value must have at most 1024 characters"},
	{[]string{`agentUpdatePolicy: Automatic`}, []string{`agentUpdatePolicy: Never`}, "spec.agentUpdatePolicy", "Unsupported value"},
	{[]string{`replicaRecovery: Manual`}, []string{`replicaRecovery: Never`}, "spec.replicaRecovery", "Unsupported value"},
	{[]string{`image: registry.example.com:5000/postgres:16-alpine@sha256:0123`}, []string{`image: "postgres 16"`, `image: -x`},
		"spec.image", "image: must be an image reference"},
	{[]string{`resources: {requests: {cpu: 500m}, limits: {cpu: 1}}`}, []string{`resources: {requests: {cpu: 2}, limits: {cpu: 1}}`},
		"spec.resources", "resources: no request may be above its limit"},
	{[]string{`autoGrow: {step: 10Gi, max: 100Gi}`}, []string{`autoGrow: {step: 0%, max: 2Gi}`, `autoGrow: {step: 101%, max: 2Gi}`, `autoGrow: {step: 1.5Gi, max: 2Gi}`, `autoGrow: {step: a, max: 2Gi}`},
		"spec.autoGrow.step", "step: must be a size such as 10Gi"},
	{[]string{`roles: [{name: reader, passwordSecret: {name: a}}]`}, []string{`roles: [{name: reader, login: false, passwordSecret: {name: a}}]`},
		"spec.roles[0]", "passwordSecret: only a role that logs in has a password"},
	{[]string{`roles: [{name: reader, inRoles: [pg_read_all_data, writer]}, {name: writer}]`},
		[]string{`roles: [{name: reader, inRoles: [pg_execute_server_program]}]`, `roles: [{name: reader, inRoles: [postgres]}]`, `roles: [{name: reader, inRoles: [pg_maintain]}]`, `roles: [{name: reader, inRoles: ["a b"]}]`},
		"spec.roles[0].inRoles[0]", "inRoles: must be one of spec.roles, or a role of PostgreSQL"},
	{[]string{`networkPolicy: {from: [{podSelector: {}}], metricsFrom: [{namespaceSelector: {}}]}`}, []string{`networkPolicy: {enabled: false, from: [{podSelector: {}}]}`, `networkPolicy: {enabled: false, metricsFrom: [{podSelector: {}}]}`},
		"spec.networkPolicy", "networkPolicy: from and metricsFrom have no effect"},
	{[]string{`pgHBA: [{cidr: 10.0.0.0/8}, {cidr: "fd00::/8", method: reject}]`}, []string{`pgHBA: [{cidr: 10.0.0.1}]`, `pgHBA: [{cidr: all}]`},
		"spec.pgHBA[0].cidr", "cidr: must be a range of addresses"},
	{[]string{`bootstrap: {initdb: {locale: en_US.utf8}}`}, []string{`bootstrap: {initdb: {locale: "a b"}}`, `bootstrap: {initdb: {locale: --x}}`},
		"spec.bootstrap.initdb.locale", "locale: must be the name of a locale"},
	{[]string{`bootstrap: {initdb: {icuLocale: und-u-ks-level2}}`}, []string{`bootstrap: {initdb: {icuLocale: "a b"}}`, `bootstrap: {initdb: {icuLocale: --x}}`},
		"spec.bootstrap.initdb.icuLocale", "icuLocale: must be the name of a locale of ICU"},
	{[]string{`bootstrap: {pgBasebackup: {host: db.example.com, user: copier, passwordSecret: {name: old}, sslMode: require}}`},
		[]string{`bootstrap: {}`, `bootstrap: {initdb: {}, pgBasebackup: {host: a, user: b, passwordSecret: {name: old}, sslMode: require}}`},
		"spec.bootstrap", "bootstrap: must have one of initdb"},
	{[]string{`bootstrap: {pgBasebackup: {host: a, user: b, clientCertificateSecret: {name: old}, sslMode: require}}`},
		[]string{`bootstrap: {pgBasebackup: {host: a, user: b, sslMode: require}}`},
		"spec.bootstrap.pgBasebackup", "pgBasebackup: needs passwordSecret or clientCertificateSecret"},
	{[]string{`bootstrap: {pgBasebackup: {host: a, user: b, passwordSecret: {name: old}, caSecret: {name: old, key: root.crt}}}`},
		[]string{`bootstrap: {pgBasebackup: {host: a, user: b, passwordSecret: {name: old}}}`, `bootstrap: {pgBasebackup: {host: a, user: b, passwordSecret: {name: old}, sslMode: verify-ca}}`},
		"spec.bootstrap.pgBasebackup", "pgBasebackup.caSecret: must name the CA"},
	{[]string{from(`host: "fd00::7"`)}, []string{from(`host: "a b"`), from(`host: "a,b"`), from(`host: /run/x`), from(`host: -a`), from(`host: "a' password=b"`), from(`host: a_b`), from(`host: "a\nb"`)},
		"spec.bootstrap.pgBasebackup.host", "host: must be one DNS name or address"},
	{[]string{from(`user: Copier_2@x-y.z`)}, []string{from(`user: "a b"`), from(`user: -a`), from(`user: "a'b"`), from(`user: "2a"`), from(`user: "a\nb"`)},
		"spec.bootstrap.pgBasebackup.user", "user: must be the name of a role"},
	{[]string{from(`passwordSecret: {name: old.server-1}`)}, []string{from(`passwordSecret: {name: Old}`), from(`passwordSecret: {name: "../x"}`)},
		"spec.bootstrap.pgBasebackup.passwordSecret.name", "name: must be the name of a Secret"},
	{[]string{from(`passwordSecret: {name: old, key: POSTGRES_PASSWORD}`)}, []string{from(`passwordSecret: {name: old, key: ..}`), from(`passwordSecret: {name: old, key: a/b}`)},
		"spec.bootstrap.pgBasebackup.passwordSecret.key", "key: must be a key of a Secret"},
	{[]string{from(`sslMode: verify-ca`)}, []string{from(`sslMode: disable`), from(`sslMode: prefer`)},
		"spec.bootstrap.pgBasebackup.sslMode", "Unsupported value"},
	{[]string{`failover: {maximumLag: 1}`}, []string{`failover: {maximumLag: 0}`, `failover: {maximumLag: -1Mi}`, `failover: {maximumLag: 500m}`},
		"spec.failover.maximumLag", "maximumLag: must be a number of bytes above 0"},
	{[]string{`lease: {leaseDurationSeconds: 20, renewDeadlineSeconds: 16}`},
		[]string{`lease: {leaseDurationSeconds: 9}`, `lease: {renewDeadlineSeconds: 8}`, `lease: {leaseDurationSeconds: 20, renewDeadlineSeconds: 17}`},
		"spec.lease", "lease.renewDeadlineSeconds: with the 2 s that a primary may need to stop"},
	{[]string{`lease: {renewDeadlineSeconds: 6}`}, []string{`lease: {retryPeriodSeconds: 3}`, `lease: {renewDeadlineSeconds: 5}`},
		"spec.lease", "lease.retryPeriodSeconds: must be at most a third of renewDeadlineSeconds"},
	{[]string{`lease: {leaseDurationSeconds: 6, renewDeadlineSeconds: 3, retryPeriodSeconds: 1}`},
		[]string{`lease: {leaseDurationSeconds: 5, renewDeadlineSeconds: 3, retryPeriodSeconds: 1}`, `lease: {leaseDurationSeconds: 301}`},
		"spec.lease.leaseDurationSeconds", "leaseDurationSeconds"},
	{[]string{`lease: {leaseDurationSeconds: 300, renewDeadlineSeconds: 180, retryPeriodSeconds: 60}`},
		[]string{`lease: {renewDeadlineSeconds: 2, retryPeriodSeconds: 1}`, `lease: {retryPeriodSeconds: 0}`, `lease: {leaseDurationSeconds: 300, renewDeadlineSeconds: 200, retryPeriodSeconds: 61}`},
		"spec.lease.re", "should be"},
	{[]string{`monitoring: {interval: 5m}`}, []string{`monitoring: {interval: 0s}`, `monitoring: {interval: 1h}`, `monitoring: {interval: fast}`},
		"spec.monitoring.interval", "interval: must be seconds or minutes"},
	{[]string{`tls: {dnsNames: ["db.example.com", "*.db.example.com"]}`}, []string{`tls: {dnsNames: ["DB"]}`, `tls: {dnsNames: ["a..b"]}`, `tls: {dnsNames: ["a b"]}`},
		"spec.tls.dnsNames", "dnsNames: each must be a DNS name in lower case"},
	{[]string{`tls: {issuerRef: {name: internal.ca-1, kind: ClusterIssuer}}`}, []string{`tls: {issuerRef: {name: "Internal CA"}}`, `tls: {issuerRef: {name: "-"}}`},
		"spec.tls.issuerRef.name", "name: must be the name of an issuer"},
	{[]string{`tls: {issuerRef: {name: a, group: awspca.cert-manager.io}}`}, []string{`tls: {issuerRef: {name: a, group: "cert manager"}}`, `tls: {issuerRef: {name: a, group: a..b}}`},
		"spec.tls.issuerRef.group", "group: must be the group of an API"},
	{[]string{`tls: {issuerRef: {name: a, kind: StepClusterIssuer, group: certmanager.step.sm}}`},
		[]string{`tls: {issuerRef: {name: a, kind: Vault}}`, `tls: {issuerRef: {name: a, kind: StepIssuer, group: cert-manager.io}}`},
		"spec.tls.issuerRef", "kind: must be Issuer or ClusterIssuer in the group cert-manager.io"},
	{[]string{`tls: {issuerRef: {name: a, kind: ClusterIssuer}}`},
		[]string{`tls: {issuerRef: {name: a, kind: stepissuers, group: certmanager.step.sm}}`, `tls: {issuerRef: {name: a, kind: Step-Issuer, group: certmanager.step.sm}}`},
		"spec.tls.issuerRef.kind", "kind: must be the kind of an issuer"},
}

var postgreSQLChanges = []change{
	{`version: "16"`, `version: "16.4"`, []string{`version: "17"`, `version: "15.1"`}, "version: a change to another major version"},
	{`storage: 1Gi`, `storage: 2Gi`, []string{`storage: 1023Mi`}, "storage: cannot be reduced"},
	{`image: "example.com:5000/alpine/postgres:16"`, `image: "postgres:16.4@sha256:0123alpine"`, []string{`image: "postgres:16-alpine"`, `image: "postgres:16-alpine3.22@sha256:0123"`}, "image: cannot be changed between"},
	{`image: "postgres:16-alpine"`, `image: "example.com:5000/postgres:16.4-alpine3.22"`, []string{`image: "postgres:16"`, ``}, "image: cannot be changed between"},
	{`storageClassName: fast`, `storageClassName: fast`, []string{`storageClassName: slow`, ``}, "storageClassName: cannot be changed"},
	{`databaseName: shop`, `databaseName: shop`, []string{`databaseName: other`, ``}, "databaseName: cannot be changed"},
	{`owner: {name: other}`, `owner: {name: other, passwordSecret: {name: mine}}`, []string{`owner: {name: another}`, ``}, "owner.name: cannot be changed"},
	{``, `owner: {name: app}`, []string{`owner: {name: other}`}, "owner.name: cannot be changed"},
	{``, `bootstrap: {initdb: {locale: C.UTF-8}}`, []string{`bootstrap: {initdb: {locale: C}}`}, "bootstrap: cannot be changed"},
	{from(`port: 5433`), from(`port: 5433`), []string{from(`port: 5432`), ``, `bootstrap: {initdb: {}}`}, "bootstrap: cannot be changed"},
}

// postgreSQLBackup is a spec with backups, and one field of them.
func postgreSQLBackup(field string) string {
	return "backup: {enabled: true, " + field + "}"
}

func TestBackupNeedsShortName(t *testing.T) {
	k := kindNamed("PostgreSQL")
	for _, c := range []struct {
		length int
		spec   string
		ok     bool
	}{{40, `backup: {enabled: true}`, true}, {41, `backup: {enabled: true}`, false}, {41, `backup: {enabled: false}`, true}} {
		u := object(t, k, c.spec)
		u.SetName(strings.Repeat("a", c.length))
		if err := try(t, newClient(t), u); c.ok && err != nil {
			t.Errorf("%d characters, %s: %v", c.length, c.spec, err)
		} else if !c.ok {
			expectRejected(t, err, c.spec, "", "metadata.name: must have at most 40 characters")
		}
	}
}
