package api_test

import (
	"fmt"
	"slices"
	"strings"
)

var appStack = kind{
	name: "AppStack", apiVersion: "platform.fettle.dev/v1", crd: "platform.fettle.dev_appstacks", object: "shop",
	smallest: `components: [{name: web, webApp: {image: nginx}}]`, changes: appStackChanges,
	rules: slices.Concat(appStackRules, destinationRules("spec.components[1].mySQL.backup.destination", func(d string) string {
		return withMySQL("backup: {destination: " + d + "}")
	})),
	nameMessage: "metadata.name", names: map[string]bool{
		"shop": true, "a" + strings.Repeat("b", 46): true, "a" + strings.Repeat("b", 48): false, "1shop": false, "shop.eu": false, "shop-": false,
	},
}

// withComponents is a spec with a web application and these components.
func withComponents(format string, args ...any) string {
	return "components: [{name: web, webApp: {image: nginx}}, " + fmt.Sprintf(format, args...) + "]"
}

// withMySQL is a spec with a MySQL that has these fields.
func withMySQL(fields string) string { return withComponents("{name: db, mySQL: {%s}}", fields) }

// withCache is a spec with a cache that has these fields.
func withCache(fields string) string { return withComponents("{name: cache, cache: {%s}}", fields) }

var appStackRules = []rule{
	{[]string{`environment: staging`}, []string{`environment: test`}, "spec.environment", "supported values"},
	{[]string{`deletionPolicy: Delete`}, []string{`deletionPolicy: Keep`}, "spec.deletionPolicy", "supported values"},
	{[]string{`componentTimeout: 10s`, `componentTimeout: 24h`}, []string{`componentTimeout: 9s`, `componentTimeout: 25h`}, "spec.componentTimeout", "componentTimeout: must be a duration from 10s to 24h"},
	{nil, []string{`components: []`}, "spec.components", "at least 1"},
	{[]string{withComponents(`{name: api-1, webApp: {image: a}}`)}, []string{withComponents(`{name: Api, webApp: {image: a}}`), withComponents(`{name: a-, webApp: {image: a}}`), withComponents(`{name: 1a, webApp: {image: a}}`)},
		"spec.components[1].name", "name: must be lower-case letters"},
	{
		[]string{withComponents(`{name: db, postgreSQL: {version: "17"}}`), withComponents(`{name: a, config: {}}`)},
		[]string{withComponents(`{name: db}`), withComponents(`{name: db, webApp: {image: a}, cache: {}}`)},
		"spec.components[1]", "components: each must have exactly one of",
	},
	{
		[]string{withComponents(`{name: a, webApp: {image: a}, connections: [{from: web}]}`)},
		[]string{withComponents(`{name: a, cache: {}, connections: [{from: web}]}`)},
		"spec.components[1]", "connections: only a webApp connects",
	},
	{
		[]string{withComponents(`{name: a, cache: {}, dependsOn: [web]}`), withComponents(`{name: a, cache: {}, dependsOn: []}`)},
		[]string{withComponents(`{name: a, cache: {}, dependsOn: [b]}`), withComponents(`{name: a, cache: {}, dependsOn: [a]}`)},
		"spec", "dependsOn: each name must be the name of another component",
	},
	{
		[]string{withComponents(`{name: a, webApp: {image: a}, connections: [{from: web}]}`)},
		[]string{withComponents(`{name: a, webApp: {image: a}, connections: [{from: b}]}`), withComponents(`{name: a, webApp: {image: a}, connections: [{from: a}]}`)},
		"spec", "connections: from must be the name of another component",
	},
	{
		[]string{withComponents(`{name: a, webApp: {image: a}, connections: [{from: web, prefix: WEB_}]}`)},
		[]string{withComponents(`{name: a, webApp: {image: a}, connections: [{from: web, prefix: "1"}]}`), withComponents(`{name: a, webApp: {image: a}, connections: [{from: web, prefix: "$(A)"}]}`)},
		"spec.components[1].connections[0].prefix", "prefix: must be the beginning of the name of an environment variable",
	},
	{
		[]string{withComponents(`{name: a, external: {type: MySQL, secretRef: {name: old, key: url}}}`)},
		[]string{withComponents(`{name: a, external: {type: Oracle, secretRef: {name: old}}}`)},
		"spec.components[1].external.type", "supported values",
	},
	{[]string{withComponents(`{name: a, external: {type: Cache, secretRef: {name: a.b}}}`)}, []string{withComponents(`{name: a, external: {type: Cache, secretRef: {name: A}}}`)},
		"spec.components[1].external.secretRef.name", "name: must be the name of a Secret"},
	{[]string{withComponents(`{name: a, external: {type: Cache, secretRef: {name: a, key: u_r.i}}}`)}, []string{withComponents(`{name: a, external: {type: Cache, secretRef: {name: a, key: a/b}}}`)},
		"spec.components[1].external.secretRef.key", "key: must be a key of a Secret"},
	{[]string{withCache("type: Redis")}, []string{withCache("type: Memcached")}, "spec.components[1].cache.type", "supported values"},
	{[]string{withCache(`version: "8.1-alpine"`)}, []string{withCache(`version: latest`), withCache(`version: "8 "`)}, "spec.components[1].cache.version", "version: must be the tag of an image"},
	{[]string{withCache(`image: "registry.example.com:5000/valkey@sha256:0a"`)}, []string{withCache(`image: "a b"`)}, "spec.components[1].cache.image", "image: must be an image reference"},
	{[]string{withCache("evictionPolicy: noeviction")}, []string{withCache("evictionPolicy: random")}, "spec.components[1].cache.evictionPolicy", "supported values"},
	{[]string{withMySQL("type: MariaDB")}, []string{withMySQL("type: Percona")}, "spec.components[1].mySQL.type", "supported values"},
	{[]string{withMySQL(`version: "8.4"`)}, []string{withMySQL(`version: lts`)}, "spec.components[1].mySQL.version", "version: must be the tag of an image"},
	{[]string{withMySQL(`image: mysql`)}, []string{withMySQL(`image: "a;b"`)}, "spec.components[1].mySQL.image", "image: must be an image reference"},
	{[]string{withMySQL("databaseName: shop_1")}, []string{withMySQL("databaseName: Shop"), withMySQL("databaseName: mysql"), withMySQL(`databaseName: "a` + "`" + `"`)},
		"spec.components[1].mySQL.databaseName", "databaseName: must be lower-case letters"},
	{[]string{`inheritedMetadata: {labels: {platform: shop}}`}, []string{`inheritedMetadata: {labels: {app.kubernetes.io/name: a}}`}, "spec.inheritedMetadata.labels", "labels: Fettle sets app"},
	{[]string{`inheritedMetadata: {annotations: {example.com/a: b}}`}, []string{`inheritedMetadata: {annotations: {fettle.dev/a: b}}`},
		"spec.inheritedMetadata.annotations", "annotations: those of fettle.dev are reserved"},
}

var appStackChanges = []change{
	{withMySQL("type: MariaDB"), withMySQL(`type: MariaDB, version: "11.8"`), []string{withMySQL("type: MySQL"), withMySQL("")}, "type: cannot be changed"},
	{withMySQL("storageClassName: fast"), withMySQL("storageClassName: fast, storage: 1Gi"), []string{withMySQL("storageClassName: slow"), withMySQL("")}, "storageClassName: cannot be changed"},
	{withMySQL("databaseName: shop"), withMySQL("databaseName: shop, storage: 1Gi"), []string{withMySQL("databaseName: other"), withMySQL("")}, "databaseName: cannot be changed"},
	{`environment: production`, `environment: development`, nil, ""},
}
