package v1alpha1_test

import (
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// rule is one that is written in CEL: a spec that it accepts and some that it refuses.
type rule struct {
	accept string
	refuse []string
	// field is the path and message the start of the sentence that the refusal must contain.
	field, message string
}

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

var rules = []rule{
	{`version: "16.4"`, []string{`version: "12"`, `version: "19"`, `version: new`, `version: "16."`, `version: "16.04"`, `version: "16.x"`, `version: "9.6"`},
		"spec.version", "version: must be 13, 14, 15, 16, 17 or 18"},
	{`storage: 128Mi`, []string{`storage: 127Mi`, `storage: 0`}, "spec.storage", "storage: must be at least 128Mi"},
	{`{replicas: 3, synchronous: {number: 2}}`, []string{`{replicas: 2, synchronous: {number: 2}}`, `synchronous: {}`},
		"spec", "synchronous.number: must be below replicas"},
	{`{replicas: 3, preferredPrimary: "2"}`, []string{`{replicas: 2, preferredPrimary: "2"}`, `{replicas: 2, preferredPrimary: demo-2}`},
		"spec", "preferredPrimary: there is no such instance"},
	{`{replicas: 3, preferredPrimary: demo-1}`, []string{`{replicas: 3, preferredPrimary: demo}`, `{replicas: 3, preferredPrimary: "9"}`, `{replicas: 3, preferredPrimary: demo-12}`},
		"spec.preferredPrimary", "preferredPrimary: must be the name of a pod"},
	{`{replicas: 3, preferredPrimary: demo-0}`, []string{`{replicas: 3, preferredPrimary: other-0}`, `{replicas: 3, preferredPrimary: demos-0}`},
		"<nil>", "preferredPrimary: must be the name of a pod of this PostgreSQL"},
	{`databases: [{name: other}]`, []string{`databases: [{name: app}]`, `{databaseName: shop, databases: [{name: shop}]}`},
		"spec", "databases: must not list databaseName again"},
	{`{roles: [{name: app}], owner: {name: other}}`, []string{`roles: [{name: app}]`, `{roles: [{name: other}], owner: {name: other}}`},
		"spec", "roles: must not list the owner of databaseName"},
	{`{owner: {name: other}, databases: [{name: a, owner: other}]}`, []string{`{owner: {name: other}, databases: [{name: a, owner: app}]}`},
		"spec", "databases: each owner must be one of spec.roles"},
	{`owner: {passwordSecret: {name: mine}}`, []string{`owner: {passwordSecret: {name: Mine}}`}, "spec.owner.passwordSecret.name", "name: must be the name of a Secret"},
	{`{roles: [{name: reader}], databases: [{name: a, owner: reader}, {name: b, owner: app}, {name: c}]}`,
		[]string{`databases: [{name: a, owner: reader}]`, `{roles: [{name: writer}], databases: [{name: a, owner: reader}]}`},
		"spec", "databases: each owner must be one of spec.roles"},
	{`autoGrow: {max: 1Gi}`, []string{`autoGrow: {max: 1023Mi}`}, "spec", "autoGrow.max: must not be below storage"},
	{`{version: "15", bootstrap: {initdb: {icuLocale: de-DE}}}`, []string{`{version: "14", bootstrap: {initdb: {icuLocale: de-DE}}}`},
		"spec", "bootstrap.initdb.icuLocale: needs version 15 or later"},
	{`databaseName: my_app2`, []string{`databaseName: my-app`, `databaseName: App`, `databaseName: 2app`, `databaseName: app_`, `databaseName: "a b"`},
		"spec.databaseName", "name: must be lower-case letters"},
	{`databaseName: postgres2`, []string{`databaseName: postgres`, `databaseName: template1`, `databaseName: streaming_replica`, `databaseName: pg_x`, `databaseName: fettle_x`, `databaseName: all`},
		"spec.databaseName", "name: is reserved by PostgreSQL or Fettle"},
	{`extensions: [uuid-ossp, pg_trgm]`, []string{`extensions: ["a b"]`, `extensions: ["a;drop"]`, `extensions: [A]`},
		"spec.extensions[0]", "extension: must be the name of an extension"},
	{`extensions: [plpgsql, jsonb_plperl, plv8]`, []string{`extensions: [plpython3u]`, `extensions: [file_fdw]`, `extensions: [adminpack]`, `extensions: [plperlu]`, `extensions: [jsonb_plpython3u]`, `extensions: [plsh]`},
		"spec.extensions[0]", "extension: lets its users out of the database"},
	{`parameters: {work_mem: 64MB, pg_stat_statements.max: "100"}`, []string{`parameters: {"work mem": a}`, `parameters: {WORK_MEM: a}`, `parameters: {a.b.c: a}`, `parameters: {"a\nb": a}`},
		"spec.parameters", "parameters: each name must be that of a parameter"},
	{`parameters: {max_connections: 200, log_line_prefix: "%m [%p] 'x'"}`, []string{"parameters: {work_mem: \"" + strings.Repeat("1", 1025) + "\"}"},
		"spec.parameters", "parameters: each value must have at most 1024 characters"},
	{`agentUpdatePolicy: Automatic`, []string{`agentUpdatePolicy: Never`}, "spec.agentUpdatePolicy", "Unsupported value"},
	{`replicaRecovery: Manual`, []string{`replicaRecovery: Never`}, "spec.replicaRecovery", "Unsupported value"},
	{`image: registry.example.com:5000/postgres:16-alpine@sha256:0123`, []string{`image: "postgres 16"`, `image: -x`},
		"spec.image", "image: must be an image reference"},
	{`resources: {requests: {cpu: 500m}, limits: {cpu: 1}}`, []string{`resources: {requests: {cpu: 2}, limits: {cpu: 1}}`},
		"spec.resources", "resources: no request may be above its limit"},
	{`autoGrow: {step: 10Gi, max: 100Gi}`, []string{`autoGrow: {step: 0%, max: 2Gi}`, `autoGrow: {step: 101%, max: 2Gi}`, `autoGrow: {step: 1.5Gi, max: 2Gi}`, `autoGrow: {step: a, max: 2Gi}`},
		"spec.autoGrow.step", "step: must be a size such as 10Gi"},
	{`roles: [{name: reader, passwordSecret: {name: a}}]`, []string{`roles: [{name: reader, login: false, passwordSecret: {name: a}}]`},
		"spec.roles[0]", "passwordSecret: only a role that logs in has a password"},
	{`roles: [{name: reader, inRoles: [pg_read_all_data, writer]}, {name: writer}]`,
		[]string{`roles: [{name: reader, inRoles: [pg_execute_server_program]}]`, `roles: [{name: reader, inRoles: [postgres]}]`, `roles: [{name: reader, inRoles: [pg_maintain]}]`, `roles: [{name: reader, inRoles: ["a b"]}]`},
		"spec.roles[0].inRoles[0]", "inRoles: must be one of spec.roles, or a role of PostgreSQL"},
	{`networkPolicy: {from: [{podSelector: {}}], metricsFrom: [{namespaceSelector: {}}]}`, []string{`networkPolicy: {enabled: false, from: [{podSelector: {}}]}`, `networkPolicy: {enabled: false, metricsFrom: [{podSelector: {}}]}`},
		"spec.networkPolicy", "networkPolicy: from and metricsFrom have no effect"},
	{`pgHBA: [{cidr: 10.0.0.0/8}, {cidr: "fd00::/8", method: reject}]`, []string{`pgHBA: [{cidr: 10.0.0.1}]`, `pgHBA: [{cidr: all}]`},
		"spec.pgHBA[0].cidr", "cidr: must be a range of addresses"},
	{`bootstrap: {initdb: {locale: en_US.utf8}}`, []string{`bootstrap: {initdb: {locale: "a b"}}`, `bootstrap: {initdb: {locale: --x}}`},
		"spec.bootstrap.initdb.locale", "locale: must be the name of a locale"},
	{`bootstrap: {initdb: {icuLocale: und-u-ks-level2}}`, []string{`bootstrap: {initdb: {icuLocale: "a b"}}`, `bootstrap: {initdb: {icuLocale: --x}}`},
		"spec.bootstrap.initdb.icuLocale", "icuLocale: must be the name of a locale of ICU"},
	{`bootstrap: {pgBasebackup: {host: db.example.com, user: copier, passwordSecret: {name: old}, sslMode: require}}`,
		[]string{`bootstrap: {}`, `bootstrap: {initdb: {}, pgBasebackup: {host: a, user: b, passwordSecret: {name: old}, sslMode: require}}`},
		"spec.bootstrap", "bootstrap: must have one of initdb"},
	{`bootstrap: {pgBasebackup: {host: a, user: b, clientCertificateSecret: {name: old}, sslMode: require}}`,
		[]string{`bootstrap: {pgBasebackup: {host: a, user: b, sslMode: require}}`},
		"spec.bootstrap.pgBasebackup", "pgBasebackup: needs passwordSecret or clientCertificateSecret"},
	{`bootstrap: {pgBasebackup: {host: a, user: b, passwordSecret: {name: old}, caSecret: {name: old, key: root.crt}}}`,
		[]string{`bootstrap: {pgBasebackup: {host: a, user: b, passwordSecret: {name: old}}}`, `bootstrap: {pgBasebackup: {host: a, user: b, passwordSecret: {name: old}, sslMode: verify-ca}}`},
		"spec.bootstrap.pgBasebackup", "pgBasebackup.caSecret: must name the CA"},
	{from(`host: "fd00::7"`), []string{from(`host: "a b"`), from(`host: "a,b"`), from(`host: /run/x`), from(`host: -a`), from(`host: "a' password=b"`), from(`host: a_b`), from(`host: "a\nb"`)},
		"spec.bootstrap.pgBasebackup.host", "host: must be one DNS name or address"},
	{from(`user: Copier_2@x-y.z`), []string{from(`user: "a b"`), from(`user: -a`), from(`user: "a'b"`), from(`user: "2a"`), from(`user: "a\nb"`)},
		"spec.bootstrap.pgBasebackup.user", "user: must be the name of a role"},
	{from(`passwordSecret: {name: old.server-1}`), []string{from(`passwordSecret: {name: Old}`), from(`passwordSecret: {name: "../x"}`)},
		"spec.bootstrap.pgBasebackup.passwordSecret.name", "name: must be the name of a Secret"},
	{from(`passwordSecret: {name: old, key: POSTGRES_PASSWORD}`), []string{from(`passwordSecret: {name: old, key: ..}`), from(`passwordSecret: {name: old, key: a/b}`)},
		"spec.bootstrap.pgBasebackup.passwordSecret.key", "key: must be a key of a Secret"},
	{from(`sslMode: verify-ca`), []string{from(`sslMode: disable`), from(`sslMode: prefer`)},
		"spec.bootstrap.pgBasebackup.sslMode", "Unsupported value"},
	{`failover: {maximumLag: 1}`, []string{`failover: {maximumLag: 0}`, `failover: {maximumLag: -1Mi}`, `failover: {maximumLag: 500m}`},
		"spec.failover.maximumLag", "maximumLag: must be a number of bytes above 0"},
	{`lease: {leaseDurationSeconds: 20, renewDeadlineSeconds: 16}`,
		[]string{`lease: {leaseDurationSeconds: 9}`, `lease: {renewDeadlineSeconds: 8}`, `lease: {leaseDurationSeconds: 20, renewDeadlineSeconds: 17}`},
		"spec.lease", "lease.renewDeadlineSeconds: with the 2 s that a primary may need to stop"},
	{`lease: {renewDeadlineSeconds: 6}`, []string{`lease: {retryPeriodSeconds: 3}`, `lease: {renewDeadlineSeconds: 5}`},
		"spec.lease", "lease.retryPeriodSeconds: must be at most a third of renewDeadlineSeconds"},
	{`lease: {leaseDurationSeconds: 6, renewDeadlineSeconds: 3, retryPeriodSeconds: 1}`,
		[]string{`lease: {leaseDurationSeconds: 5, renewDeadlineSeconds: 3, retryPeriodSeconds: 1}`, `lease: {leaseDurationSeconds: 301}`},
		"spec.lease.leaseDurationSeconds", "leaseDurationSeconds"},
	{`lease: {leaseDurationSeconds: 300, renewDeadlineSeconds: 180, retryPeriodSeconds: 60}`,
		[]string{`lease: {renewDeadlineSeconds: 2, retryPeriodSeconds: 1}`, `lease: {retryPeriodSeconds: 0}`, `lease: {leaseDurationSeconds: 300, renewDeadlineSeconds: 200, retryPeriodSeconds: 61}`},
		"spec.lease.re", "should be"},
	{`monitoring: {interval: 5m}`, []string{`monitoring: {interval: 0s}`, `monitoring: {interval: 1h}`, `monitoring: {interval: fast}`},
		"spec.monitoring.interval", "interval: must be seconds or minutes"},
	{`tls: {dnsNames: ["db.example.com", "*.db.example.com"]}`, []string{`tls: {dnsNames: ["DB"]}`, `tls: {dnsNames: ["a..b"]}`, `tls: {dnsNames: ["a b"]}`},
		"spec.tls.dnsNames", "dnsNames: each must be a DNS name in lower case"},
	{`tls: {issuerRef: {name: internal.ca-1, kind: ClusterIssuer}}`, []string{`tls: {issuerRef: {name: "Internal CA"}}`, `tls: {issuerRef: {name: "-"}}`},
		"spec.tls.issuerRef.name", "name: must be the name of an issuer"},
	{`tls: {issuerRef: {name: a, group: awspca.cert-manager.io}}`, []string{`tls: {issuerRef: {name: a, group: "cert manager"}}`, `tls: {issuerRef: {name: a, group: a..b}}`},
		"spec.tls.issuerRef.group", "group: must be the group of an API"},
	{`tls: {issuerRef: {name: a, kind: StepClusterIssuer, group: certmanager.step.sm}}`,
		[]string{`tls: {issuerRef: {name: a, kind: Vault}}`, `tls: {issuerRef: {name: a, kind: StepIssuer, group: cert-manager.io}}`},
		"spec.tls.issuerRef", "kind: must be Issuer or ClusterIssuer in the group cert-manager.io"},
	{`tls: {issuerRef: {name: a, kind: ClusterIssuer}}`,
		[]string{`tls: {issuerRef: {name: a, kind: stepissuers, group: certmanager.step.sm}}`, `tls: {issuerRef: {name: a, kind: Step-Issuer, group: certmanager.step.sm}}`},
		"spec.tls.issuerRef.kind", "kind: must be the kind of an issuer"},
}

func TestRules(t *testing.T) {
	c := newClient(t)
	for _, r := range rules {
		t.Run(r.message, func(t *testing.T) {
			if err := try(t, c, object(t, r.accept)); err != nil {
				t.Errorf("%s: refused: %v", r.accept, err)
			}
			for _, spec := range r.refuse {
				check(t, try(t, c, object(t, spec)), spec, r)
			}
		})
	}
}

func check(t *testing.T, err error, spec string, r rule) {
	t.Helper()
	switch {
	case err == nil:
		t.Errorf("%s: accepted", spec)
	case !strings.Contains(err.Error(), r.field) || !strings.Contains(err.Error(), r.message):
		t.Errorf("%s: refused with %q, want %s: %s", spec, err, r.field, r.message)
	}
}

// changes are the rules about what may become of an object that exists.
var changes = []struct {
	before, accept string
	rule
}{
	{`version: "16"`, `version: "16.4"`, rule{"", []string{`version: "17"`, `version: "15.1"`}, "spec.version", "version: a change to another major version"}},
	{`storage: 1Gi`, `storage: 2Gi`, rule{"", []string{`storage: 1023Mi`}, "spec.storage", "storage: cannot be reduced"}},
	{`image: "example.com:5000/alpine/postgres:16"`, `image: "postgres:16.4@sha256:0123alpine"`, rule{"", []string{`image: "postgres:16-alpine"`, `image: "postgres:16-alpine3.22@sha256:0123"`}, "spec", "image: cannot be changed between"}},
	{`image: "postgres:16-alpine"`, `image: "example.com:5000/postgres:16.4-alpine3.22"`, rule{"", []string{`image: "postgres:16"`, ``}, "spec", "image: cannot be changed between"}},
	{`storageClassName: fast`, `storageClassName: fast`, rule{"", []string{`storageClassName: slow`, ``}, "spec", "storageClassName: cannot be changed"}},
	{`databaseName: shop`, `databaseName: shop`, rule{"", []string{`databaseName: other`, ``}, "spec.databaseName", "databaseName: cannot be changed"}},
	{`owner: {name: other}`, `owner: {name: other, passwordSecret: {name: mine}}`, rule{"", []string{`owner: {name: another}`, ``}, "spec", "owner.name: cannot be changed"}},
	{``, `owner: {name: app}`, rule{"", []string{`owner: {name: other}`}, "spec", "owner.name: cannot be changed"}},
	{``, `bootstrap: {initdb: {locale: C.UTF-8}}`, rule{"", []string{`bootstrap: {initdb: {locale: C}}`}, "spec.bootstrap", "bootstrap: cannot be changed"}},
	{from(`port: 5433`), from(`port: 5433`), rule{"", []string{from(`port: 5432`), ``, `bootstrap: {initdb: {}}`}, "spec.bootstrap", "bootstrap: cannot be changed"}},
}

func TestChanges(t *testing.T) {
	c := newClient(t)
	for _, r := range changes {
		t.Run(r.message, func(t *testing.T) {
			u := object(t, r.before)
			u.SetNamespace(env.Namespace(t))
			if err := c.Create(t.Context(), u); err != nil {
				t.Fatal(err)
			}
			update := func(spec string) error {
				fresh := &unstructured.Unstructured{}
				fresh.SetGroupVersionKind(u.GroupVersionKind())
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(u), fresh); err != nil {
					t.Fatal(err)
				}
				fresh.Object["spec"] = object(t, spec).Object["spec"]
				return c.Update(t.Context(), plain(t, fresh), client.DryRunAll)
			}
			if err := update(r.accept); err != nil {
				t.Errorf("%s: refused: %v", r.accept, err)
			}
			for _, spec := range r.refuse {
				check(t, update(spec), spec, r.rule)
			}
			// One that is being deleted, or whose labels change, is never in the way.
			if err := c.Patch(t.Context(), u, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestEveryRuleHasCases finds the rules of the schema that no case above is about.
func TestEveryRuleHasCases(t *testing.T) {
	var messages []string
	for _, r := range rules {
		messages = append(messages, r.message)
	}
	for _, r := range changes {
		messages = append(messages, r.message)
	}
	walk(schema(t), "", func(path string, s *apiextensionsv1.JSONSchemaProps) {
		for _, rule := range s.XValidations {
			if strings.HasPrefix(rule.Message, "metadata.name:") {
				continue // TestName
			}
			if !slices.ContainsFunc(messages, func(m string) bool { return strings.HasPrefix(rule.Message, m) }) {
				t.Errorf("%s: no case for the rule %q", path, rule.Message)
			}
		}
	})
}

func TestName(t *testing.T) {
	c := newClient(t)
	for name, ok := range map[string]bool{
		"pg": true, "a" + strings.Repeat("b", 51): true, "pg-1": true,
		"a" + strings.Repeat("b", 52): false, "1pg": false, "pg.app": false,
	} {
		u := object(t, "")
		u.SetName(name)
		err := try(t, c, u)
		if (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && !strings.Contains(err.Error(), "metadata.name: must be a DNS label of at most 52 characters") {
			t.Errorf("%s: refused with %q", name, err)
		}
	}
}
