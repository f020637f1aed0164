package api_test

import (
	"slices"
	"strings"
)

var ecommercePlatform = kind{
	name: "EcommercePlatform", apiVersion: "platform.fettle.dev/v1", crd: "platform.fettle.dev_ecommerceplatforms", object: "shop",
	smallest: `{frontend: {image: example/frontend}, backend: {image: example/backend}}`,
	rules: slices.Concat(ecommercePlatformRules, destinationRules("spec.database.backup.destination", func(d string) string {
		return database("backup: {destination: " + d + "}")
	})),
	changes:     ecommercePlatformChanges,
	nameMessage: "metadata.name: must be a DNS label of at most 31 characters", names: map[string]bool{
		"shop": true, "a" + strings.Repeat("b", 30): true, "shop-1": true, "a" + strings.Repeat("b", 31): false, "1shop": false, "shop.eu": false, "shop-": false,
	},
}

var ecommercePlatformRules = []rule{
	{[]string{`environment: staging`, `environment: production`}, []string{`environment: test`, `environment: ""`}, "spec.environment", "supported values"},
	{nil, []string{`frontend: {}`, `frontend: null`}, "spec.frontend", "Required value"},
	{nil, []string{`backend: {}`, `backend: null`}, "spec.backend", "Required value"},
	{[]string{`frontend: {image: "registry.example.com:5000/shop/app:v1@sha256:0a"}`}, []string{`frontend: {image: "a b"}`, `frontend: {image: "$(id)"}`, `frontend: {image: -a}`},
		"spec.frontend.image", "image: must be an image reference"},
	{[]string{`backend: {image: a}`}, []string{`backend: {image: "a;b"}`}, "spec.backend.image", "image: must be an image reference"},
	{[]string{`frontend: {image: a, replicas: 1}`}, []string{`frontend: {image: a, replicas: 0}`}, "spec.frontend.replicas", "greater than or equal to 1"},
	{[]string{`frontend: {image: a, webApp: {port: 8080, env: [{name: A, value: b}]}}`}, []string{`frontend: {image: a, webApp: [a]}`, `frontend: {image: a, webApp: a}`},
		"spec.frontend.webApp", "must be of type object"},

	{[]string{database("type: mysql"), database("type: postgresql")}, []string{database("type: mongodb")}, "spec.database.type", "supported values"},
	{
		[]string{database("externalSecretRef: {name: a}"), database("type: mysql, externalSecretRef: {name: a}")},
		[]string{
			database(`externalSecretRef: {name: a}, version: "17"`), database("externalSecretRef: {name: a}, storage: 1Gi"),
			database("externalSecretRef: {name: a}, replicas: 1"), database("externalSecretRef: {name: a}, backup: {}"),
		},
		"spec.database", "database: an external one has no version, storage, replicas or backup here",
	},
	{[]string{database("type: mysql, replicas: 1"), database("type: postgresql, replicas: 9")}, []string{database("type: mysql, replicas: 2")},
		"spec.database", "database.replicas: MySQL is a single server"},
	{[]string{database("storage: 128Mi")}, []string{database("storage: 127Mi"), database("storage: 0")}, "spec.database.storage", "storage: must be at least 128Mi"},
	{[]string{database("externalSecretRef: {name: old-server.v1}")}, []string{database("externalSecretRef: {name: Old}"), database(`externalSecretRef: {name: "../a"}`)},
		"spec.database.externalSecretRef.name", "name: must be the name of a Secret"},
	{[]string{database("externalSecretRef: {name: a, key: DATABASE_URL}")}, []string{database("externalSecretRef: {name: a, key: a/b}")},
		"spec.database.externalSecretRef.key", "key: must be a key of a Secret"},

	{[]string{`cache: {type: Redis, memory: 1Gi}`, `cache: {enabled: false}`}, []string{`cache: {type: Memcached}`}, "spec.cache.type", "supported values"},
	{[]string{`ingress: {host: shop.example.com, className: nginx, tlsSecretName: shop-tls}`}, []string{`ingress: {}`}, "spec.ingress.host", "Required value"},
	{[]string{`deletionPolicy: Delete`}, []string{`deletionPolicy: Keep`}, "spec.deletionPolicy", "supported values"},
	{[]string{`inheritedMetadata: {labels: {app.kubernetes.io/part-of: shop}}`}, []string{`inheritedMetadata: {labels: {app.kubernetes.io/name: a}}`},
		"spec.inheritedMetadata.labels", "labels: Fettle sets app"},
	{[]string{`inheritedMetadata: {annotations: {example.com/a: b}}`}, []string{`inheritedMetadata: {annotations: {fettle.dev/a: b}}`},
		"spec.inheritedMetadata.annotations", "annotations: those of fettle.dev are reserved"},
}

var ecommercePlatformChanges = []change{
	{``, database("type: postgresql, replicas: 3"), []string{database("type: mysql")}, "database.type: cannot be changed"},
	{database("type: mysql"), database("type: mysql, storage: 1Gi"), []string{database("type: postgresql"), ``}, "database.type: cannot be changed"},
	{database("storage: 1Gi"), database("storage: 2Gi"), []string{database("storage: 1023Mi")}, "storage: cannot be reduced"},
	{`environment: production`, `environment: development`, nil, ""},
}

// database is a spec whose database has these fields.
func database(fields string) string { return "database: {" + fields + "}" }
