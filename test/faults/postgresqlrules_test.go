package faults

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// rotation is over how many days the plans of PostgreSQLs are spread: there are too many for one run of the tests.
const rotation = 14

// pgRules compare PostgreSQLs without generated values. creation injects faults into the first step; the other scenarios skip it.
func pgRules(creation bool, histories ...func([]event) error) Rules {
	return Rules{
		SkipByDefault: func(p Plan) bool {
			return !creation && inFirstStep(p)
		},
		Rotation: rotation,
		Impossible: func(p Plan) bool {
			return p.Kind == Changed && unrepaired(p) || misled(p)
		},
		Normalize: normalizePostgreSQL,
		// After a crash all caches are read again, certificates take time, and many plans share few processors.
		ConvergeTimeout: 2 * time.Minute,
		// Volumes and passwords outlive the PostgreSQL, and pods have no owner while their StatefulSet is re-created.
		Unowned: func(k Key) bool { return k.Resource == pgClaims || k.Resource == pgPods || k.Resource == pgSecrets },
		DeletedWith: func(v View, k Key) []Key {
			if k.Resource == pgSets {
				return v.Keys(pgPods)
			}
			return nil
		},
		InvalidChange: regenerated,
		History:       func(events []event) error { return errors.Join(dataKept(events), checkHistories(histories, events)) },
	}
}

// pgData is true for volumes and passwords, which stay with the deletion policy Retain.
func pgData(k Key) bool {
	return k.Resource == pgClaims || k.Resource == pgSecrets && (k.Name == pgName+"-credentials" || strings.HasPrefix(k.Name, pgName+"-role-"))
}

// deletionRules skip a crash of the operator before it deletes the volumes of a deleted PostgreSQL. The volumes then stay, because only the
// event of the deletion has the spec. They also skip F13: a PostgreSQL that is deleted while its StatefulSet still creates a volume leaves
// that volume behind.
func deletionRules() Rules {
	rules := pgRules(false)
	never := rules.Impossible
	rules.Impossible = func(p Plan) bool {
		return never(p) || p.Kind == OwnerDeleted || p.Kind == CrashBefore && p.Object.Resource == pgClaims && p.Step == 5
	}
	return rules
}

// changeRules skip the deletion of the StatefulSet by another client, which deletes all pods. The primary is not the first pod there, so
// the pod that returns first becomes primary.
func changeRules() Rules {
	rules := pgRules(false, noPodDeleted)
	never := rules.Impossible
	rules.Impossible = func(p Plan) bool {
		return never(p) || p.Kind == Deleted && p.Target.Resource == pgSets
	}
	return rules
}

// updateRules run one kind of crash at every second write, each day, unless all plans are requested. On a busy machine the readiness of two
// pods overlaps even without a fault, so the other plans prove nothing.
func updateRules() Rules {
	rules := pgRules(false, oneAtATime)
	rules.Rotation = 0
	rules.SkipByDefault = func(p Plan) bool {
		return p.Step == 0 || p.Write%2 == 1 || p.Kind != []Kind{CrashBefore, CrashAfter, LostResponse}[p.Write/2%3]
	}
	return rules
}

// misled are answers that no API server gives to a missing Lease: the Lease then counts as that of a former cluster whose data are missing.
func misled(p Plan) bool { return p.Answer.name == "exists" && p.Object.Resource == pgLeases }

// unrepaired are changes that are not reverted, or not with a deterministic result.
func unrepaired(p Plan) bool {
	switch p.Target.Resource {
	case pgLeases:
		return true // it changes all the time, and is not watched
	case pgSets:
		return p.Drift.pointer == "/spec/replicas" // the StatefulSet controller may be faster
	case pgSecrets:
		// Only a person can restore an unreadable CA: all certificates depend on it.
		return strings.HasSuffix(p.Target.Name, "-ca") && strings.HasPrefix(p.Drift.pointer, "/data/")
	}
	return false
}

// normalizePostgreSQL replaces generated values, and removes additions by the cluster.
func normalizePostgreSQL(kind Kind, o *unstructured.Unstructured) {
	switch o.GetKind() {
	case "Pod":
		delete(o.Object, "spec")
		delete(o.Object, "status")
	case "Lease":
		unstructured.RemoveNestedField(o.Object, "spec", "renewTime")
		if kind == Deleted { // a re-created one does not belong to an empty cluster
			unstructured.RemoveNestedField(o.Object, "metadata", "annotations")
		}
	case "PostgreSQL":
		if hash, _, _ := unstructured.NestedString(o.Object, "status", "desiredHash"); hash != "" {
			_ = unstructured.SetNestedField(o.Object, "HASH", "status", "desiredHash") // it was found there
		}
	case "Secret":
		// Clients trust the previous CA for a while: it was deleted, or could not be kept after it had signed.
		if kind == Deleted || kind == Reply || kind == HeldReply {
			unstructured.RemoveNestedField(o.Object, "metadata", "annotations", "fettle.dev/roots-since")
		}
		normalizeSecret(o)
	}
}

func normalizeSecret(o *unstructured.Unstructured) {
	data, _, _ := unstructured.NestedStringMap(o.Object, "data")
	contents := map[string]any{}
	password := decoded(data["password"])
	for key, value := range data {
		switch {
		case strings.Contains(decoded(value), "-----BEGIN"):
			contents[key] = certified(data)
		case password != "":
			contents[key] = strings.ReplaceAll(decoded(value), password, "PASSWORD")
		default:
			contents[key] = decoded(value)
		}
	}
	o.Object["data"] = contents
}

// certified describes a certificate's purpose, and whether it, its key and the CA match.
func certified(data map[string]string) []any {
	pair, err := tls.X509KeyPair([]byte(decoded(data["tls.crt"])), []byte(decoded(data["tls.key"])))
	if err != nil {
		return []any{"unusable: " + err.Error()}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(decoded(data["ca.crt"])))
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	lines := []any{pair.Leaf.Subject.String(), fmt.Sprintf("valid: %v", err == nil)}
	for _, name := range pair.Leaf.DNSNames {
		lines = append(lines, name)
	}
	return lines
}

func decoded(text string) string {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return text
	}
	return string(raw)
}

// regenerated finds a secret that was generated again without a request.
func regenerated(before, after *unstructured.Unstructured) error {
	if after.GetKind() != "Secret" {
		return nil
	}
	was, _, _ := unstructured.NestedStringMap(before.Object, "data")
	is, _, _ := unstructured.NestedStringMap(after.Object, "data")
	if strings.HasSuffix(after.GetName(), "-ca") && !bytes.Equal([]byte(was["tls.key"]), []byte(is["tls.key"])) {
		return fmt.Errorf("the key of the CA was regenerated")
	}
	if was["password"] != is["password"] && is["password"] != was["password-next"] {
		return fmt.Errorf("the password was regenerated")
	}
	if is["password-next"] != "" && was["password-next"] != "" && was["password-next"] != is["password-next"] {
		return fmt.Errorf("the password of a rotation was regenerated")
	}
	return nil
}
