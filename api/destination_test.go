package api_test

import (
	"slices"
	"strings"
)

// destinationRules are the rules of a destination, for a kind that has one at a path. spec returns a spec with that destination.
func destinationRules(path string, spec func(destination string) string) []rule {
	all := func(destinations ...string) []string {
		specs := make([]string, len(destinations))
		for i, d := range destinations {
			specs[i] = spec("{" + d + "}")
		}
		return specs
	}
	bucket := func(fields ...string) []string {
		for i := range fields {
			fields[i] = "type: s3, bucket: shop, " + fields[i]
		}
		return all(fields...)
	}
	return []rule{
		{all(`uri: "s3://shop"`, `type: gcs, bucket: shop, prefix: a/b`), all(`uri: "s3://shop", bucket: shop`, `prefix: a`, `uri: "s3://shop", type: s3`),
			path, "destination: must have either uri"},
		{all(`type: azure, bucket: shop`), all(`type: s3`, `bucket: shop`), path, "destination: type and bucket must both be set"},
		{all(`uri: "gs://shop/a"`), all(`uri: "gs://shop/a", prefix: b`), path, "destination: prefix must not be set beside uri"},
		{all(`uri: "s3://my-backups/postgres/"`, `uri: "azblob://shop"`),
			all(`uri: "s3://"`, `uri: "file:///etc"`, `uri: "s3://shop/../other"`, `uri: "s3://shop/a//b"`, `uri: "s3://u:p@shop"`, `uri: "s3://shop?endpoint=x"`), path + ".uri", "uri: must be s3://BUCKET/PREFIX"},
		{bucket(`prefix: team-a/shop.1`), bucket(`prefix: /a`, `prefix: ../other`, `prefix: a/../../b`, `prefix: a//b`, `prefix: "a b"`), path + ".prefix", "prefix: must be a path"},
		{all(`type: s3, bucket: my.backups-1`), all(`type: s3, bucket: a/b`, `type: s3, bucket: "-ab"`), path + ".bucket", "bucket: must be the name of a bucket"},
		{bucket(`region: eu-central-1`), bucket(`region: "EU 1"`), path + ".region", "region: must be the name of a region"},
		{bucket(`endpoint: "https://minio.example.com:9000"`, `endpoint: "http://10.0.0.1"`),
			bucket(`endpoint: "ftp://a"`, `endpoint: "file:///etc/passwd"`, `endpoint: minio`, `endpoint: "https://u:p@a"`, `endpoint: "https://a?b=c"`, `endpoint: "https://a#b"`, `endpoint: "https://"`), path + ".endpoint", "endpoint: must be a URL"},
		{bucket(`serviceAccountName: shop-backup`), bucket(`serviceAccountName: Shop`, `serviceAccountName: "../x"`), path + ".serviceAccountName", "serviceAccountName: must be the name of a ServiceAccount"},
		{bucket(`accountName: shop1`), bucket(`accountName: Shop`, `accountName: shop-1`), path + ".accountName", "accountName: must be the name of a storage account"},
		{bucket(`credentialsSecretRef: {name: store.v1}`), bucket(`credentialsSecretRef: {name: Store}`, `credentialsSecretRef: {name: "../a"}`, `credentialsSecretRef: {name: "a b"}`),
			path + ".credentialsSecretRef.name", "name: must be the name of an object"},
		{bucket(`caSecretRef: {name: ca}`), bucket(`caSecretRef: {name: Ca}`), path + ".caSecretRef.name", "name: must be the name of a Secret"},
		{bucket(`caSecretRef: {name: ca, key: root.crt}`), bucket(`caSecretRef: {name: ca, key: a/b}`), path + ".caSecretRef.key", "key: must be a key of a Secret"},
		{bucket(`storageClass: STANDARD_IA`), bucket(`storageClass: "A B"`, `storageClass: "A\nB"`), path + ".storageClass", "storageClass: must be the name of a storage class"},
		{all(`uri: "s3://shop", storageClass: GLACIER_IR`, `type: gcs, bucket: shop, storageClass: ARCHIVE`),
			bucket(`storageClass: GLACIER`, `storageClass: DEEP_ARCHIVE`), path + ".storageClass", "storageClass: must not be GLACIER"},
		{all(`type: azure, bucket: shop, storageClass: Cool`, `uri: "azblob://shop", storageClass: Cold`),
			all(`type: azure, bucket: shop, storageClass: STANDARD_IA`, `uri: "azblob://shop", storageClass: archive`), path, "storageClass: must be Hot, Cool or Cold"},
		{all(sse("s3", "type: AES256"), sse("s3", "type: KMS"), sse("s3", "type: KMS, kmsKeyID: alias/backups"), sse("azure", "encryptionScope: backups")),
			all(sse("s3", "type: KMS, encryptionScope: backups"), sse("azure", "kmsKeyID: a")), path + ".serverSideEncryption", "serverSideEncryption: must have either type"},
		{all(sse("s3", "type: KMS, kmsKeyID: a")), all(sse("s3", "type: AES256, kmsKeyID: a")), path + ".serverSideEncryption", "kmsKeyID: needs type KMS"},
		{all(sse("s3", "type: KMS, kmsKeyID: 'arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab'")), all(sse("s3", "type: KMS, kmsKeyID: 'a b'")),
			path + ".serverSideEncryption.kmsKeyID", "kmsKeyID: must be the ID, ARN or name"},
		{all(sse("azure", "encryptionScope: backups-1")), all(sse("azure", "encryptionScope: a/b")), path + ".serverSideEncryption.encryptionScope", "encryptionScope: must be the name"},
		{all(`uri: "s3://shop", serverSideEncryption: {type: AES256}`), all(sse("s3", "encryptionScope: backups"), `uri: "s3://shop", serverSideEncryption: {encryptionScope: backups}`),
			path, "serverSideEncryption: must have type for s3"},
		{all(sse("gcs", "type: KMS, kmsKeyID: projects/a/locations/b/keyRings/c/cryptoKeys/d")),
			all(sse("gcs", "type: KMS"), sse("gcs", "type: AES256"), `uri: "gs://shop", serverSideEncryption: {encryptionScope: backups}`), path, "serverSideEncryption: must be type KMS with kmsKeyID for gcs"},
		{all(`uri: "azblob://shop", serverSideEncryption: {encryptionScope: backups}`),
			all(sse("azure", "type: AES256"), `uri: "azblob://shop", serverSideEncryption: {type: KMS, kmsKeyID: a}`), path, "serverSideEncryption: must be an encryptionScope for azure"},
	}
}

// sse is a destination in a store of this type with this encryption by the store.
func sse(store, encryption string) string {
	return "type: " + store + ", bucket: shop, serverSideEncryption: {" + encryption + "}"
}

// scheduleRules are the rules of a schedule and a retention. spec returns a spec with that field.
func scheduleRules(path string, spec func(field string) string) []rule {
	all := func(fields ...string) []string {
		for i := range fields {
			fields[i] = spec(fields[i])
		}
		return fields
	}
	return []rule{
		{all(`schedule: "0 2 * * *"`, `schedule: "@daily"`, `schedule: "*/15 8-18 1,15 JAN MON-FRI"`),
			all(`schedule: "0 2 * *"`, `schedule: "$(id) * * * *"`, `schedule: "0 2 * * *; rm"`, `schedule: "@every 1s"`, `schedule: "0 2 * * *\n"`), path + ".schedule", "schedule: must be a cron expression"},
		{all(`retention: 30d`, `retention: 10c`), all(`retention: 0d`, `retention: "-1"`, `retention: "30"`, `retention: 3x`), path + ".retention", "retention: must be a number with a unit"},
	}
}

// recovery is a spec that restores a backup, with this field.
func recovery(field string) string {
	return "bootstrap: {recovery: {backup: shop, " + field + "}}"
}

// location is a spec that restores a backup from a location, with this field.
func location(field string) string {
	fields := []string{field}
	for _, usual := range []string{`destination: {uri: "s3://shop"}`, "backup: shop"} {
		if name, _, _ := strings.Cut(usual, ":"); !strings.HasPrefix(field, name+":") {
			fields = append(fields, usual)
		}
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

var recoveryRules = slices.Concat(targetRules("spec.bootstrap.recovery", "recovery", recovery), []rule{
	{[]string{recovery(`targetTime: "2026-03-01T12:00:00.5+01:00"`), `bootstrap: {recovery: {location: ` + location(`run: shop-1`) + `}}`},
		[]string{`bootstrap: {recovery: {}}`, recovery(`location: ` + location(`run: shop-1`))}, "spec.bootstrap.recovery", "recovery: must have one of backup"},
	{[]string{`bootstrap: {recovery: {backup: shop}}`}, []string{`bootstrap: {recovery: {backup: ../shop}}`}, "spec.bootstrap.recovery.backup", "backup: must be the name of a Backup"},
	{[]string{`bootstrap: {recovery: {location: ` + location(`run: shop-1`) + `}}`}, []string{`bootstrap: {recovery: {location: ` + location(`run: ../x`) + `}}`},
		"spec.bootstrap.recovery.location.run", "run: must be the name of a BackupRun"},
	{[]string{`bootstrap: {recovery: {location: ` + location(`namespace: team-a`) + `}}`}, []string{`bootstrap: {recovery: {location: ` + location(`namespace: ../x`) + `}}`},
		"spec.bootstrap.recovery.location.namespace", "namespace: must be the name of a namespace"},
})

// targetRules are the rules of the target of a recovery at a path, which messages call name. spec returns a spec with these fields of it.
func targetRules(path, name string, spec func(string) string) []rule {
	immediate := spec(`targetImmediate: true`)
	return []rule{
		{[]string{immediate}, []string{spec(`targetImmediate: true, targetXID: "7"`), spec(`targetLSN: 0/1, targetName: a`)}, path, name + ": must have at most one of targetTime"},
		{[]string{spec(`targetLSN: 16/B374D848`)}, []string{spec(`targetLSN: "167"`), spec(`targetLSN: 0/G`)}, path + ".targetLSN", "targetLSN: must be a position"},
		{[]string{spec(`targetXID: "1234"`)}, []string{spec(`targetXID: abc`), spec(`targetXID: "1'"`)}, path + ".targetXID", "targetXID: must be the number"},
		{[]string{spec(`targetName: before the upgrade`)}, []string{spec(`targetName: "a'b"`), spec(`targetName: "a\nb"`)}, path + ".targetName", "targetName: must be the name"},
		{[]string{immediate}, []string{spec(`targetImmediate: false`)}, path + ".targetImmediate", "targetImmediate: must be true"},
	}
}
