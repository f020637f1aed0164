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

// pgRules compare PostgreSQLs modulo what is generated for each. creation says that the first step is disturbed; the other scenarios leave
// it to that one.
func pgRules(creation bool, histories ...func([]event) error) Rules {
	return Rules{
		SkipByDefault: func(p Plan) bool {
			return !creation && p.Step == 0 && (p.Write > 0 || p.Call != "")
		},
		Rotation: rotation,
		Parallel: true,
		Impossible: func(p Plan) bool {
			return p.Kind == Changed && unrepaired(p) || misled(p)
		},
		Normalize: normalizePostgreSQL,
		// A crash has all caches read anew, certificates take their time, and many plans share few processors.
		ConvergeTimeout: 2 * time.Minute,
		// Volumes and passwords outlive the PostgreSQL, and pods have no owner while their StatefulSet is made anew.
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

// deletionRules leave out an operator that ends before it deletes the volumes of a deleted PostgreSQL: they stay then, since nothing
// but the event of the deletion tells by which spec it was deleted. And one that does not hear of the deletion for a while: it makes again
// what the garbage collector takes, which takes that too.
func deletionRules() Rules {
	rules := pgRules(false)
	never := rules.Impossible
	rules.Impossible = func(p Plan) bool {
		unheard := (p.Kind == Stale || p.Kind == LostAndStale) && p.Object.Resource == postgreSQLs
		return never(p) || unheard || p.Kind == CrashBefore && p.Object.Resource == pgClaims && p.Step == 5
	}
	return rules
}

// changeRules leave out the deletion of the StatefulSet by others, which takes all pods with it: the primary is not the first one there, and
// whoever is back first becomes it.
func changeRules() Rules {
	rules := pgRules(false, noPodDeleted)
	never := rules.Impossible
	rules.Impossible = func(p Plan) bool {
		return never(p) || p.Kind == Deleted && p.Target.Resource == pgSets
	}
	return rules
}

// updateRules run one kind of crash at every second write, each day, unless all plans are asked for: on a busy machine the readiness of two
// pods overlaps even without a fault, so the others are not known to tell anything.
func updateRules() Rules {
	rules := pgRules(false, oneAtATime)
	rules.Rotation = 0
	rules.SkipByDefault = func(p Plan) bool {
		return p.Step == 0 || p.Write%2 == 1 || p.Kind != []Kind{CrashBefore, CrashAfter, LostResponse}[p.Write/2%3]
	}
	return rules
}

// misled are answers that no API server gives to a Lease that is not there: it counts as that of a former cluster then, whose data are to come.
func misled(p Plan) bool { return p.Answer.name == "exists" && p.Object.Resource == pgLeases }

// unrepaired are changes that are not put right, or not in a way that has one outcome.
func unrepaired(p Plan) bool {
	switch p.Target.Resource {
	case pgLeases:
		return true // it changes all the time, and is not watched
	case pgSets:
		return p.Drift.pointer == "/spec/replicas" // the StatefulSet controller may be faster
	case pgSecrets:
		// An authority that can't be read is people's to restore: all certificates hang on it.
		return strings.HasSuffix(p.Target.Name, "-ca") && strings.HasPrefix(p.Drift.pointer, "/data/")
	}
	return false
}

// normalizePostgreSQL names what is generated, and leaves out what the cluster around adds.
func normalizePostgreSQL(kind Kind, o *unstructured.Unstructured) {
	switch o.GetKind() {
	case "Pod":
		delete(o.Object, "spec")
		delete(o.Object, "status")
	case "Lease":
		unstructured.RemoveNestedField(o.Object, "spec", "renewTime")
		if kind == Deleted { // one that is made anew is not of an empty cluster
			unstructured.RemoveNestedField(o.Object, "metadata", "annotations")
		}
	case "PostgreSQL":
		if hash, _, _ := unstructured.NestedString(o.Object, "status", "desiredHash"); hash != "" {
			_ = unstructured.SetNestedField(o.Object, "HASH", "status", "desiredHash") // it was found there
		}
	case "Secret":
		// Clients trust the authority from before for a while: it was deleted, or could not be kept when it had already signed.
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

// certified says what a certificate is for, and whether it and its key belong to each other and to the authority.
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

// regenerated finds a secret that was made a second time, unless it was asked for.
func regenerated(before, after *unstructured.Unstructured) error {
	if after.GetKind() != "Secret" {
		return nil
	}
	was, _, _ := unstructured.NestedStringMap(before.Object, "data")
	is, _, _ := unstructured.NestedStringMap(after.Object, "data")
	if strings.HasSuffix(after.GetName(), "-ca") && !bytes.Equal([]byte(was["tls.key"]), []byte(is["tls.key"])) {
		return fmt.Errorf("the key of the authority was generated anew")
	}
	if was["password"] != is["password"] && is["password"] != was["password-next"] {
		return fmt.Errorf("the password was generated anew")
	}
	if is["password-next"] != "" && was["password-next"] != "" && was["password-next"] != is["password-next"] {
		return fmt.Errorf("the password of a rotation was generated anew")
	}
	return nil
}
