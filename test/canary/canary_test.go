package canary

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const planted = "s3cret \"<&>\" of the\nshop"

func values() *Values {
	v := &Values{}
	v.AddSecret("shop/credentials", map[string][]byte{
		"password": []byte(planted), "user": []byte("application"), "tls.crt": []byte("-----BEGIN CERTIFICATE-----\nMIIB"),
		"chain.pem": []byte("-----BEGIN CERTIFICATE-----\nMIIC"), "pin": []byte("1234567"),
	})
	return v
}

// TestIn plants a value in each possible encoding.
func TestIn(t *testing.T) {
	escaped, err := json.Marshal(map[string]string{"msg": "rendered " + planted})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"key password of Secret shop/credentials"}
	texts := map[string]string{
		"alone": planted, "within": "x" + planted + "y", "in a line of JSON": string(escaped),
	}
	for before := range 4 {
		part := strings.Repeat("x", before) + planted
		texts[fmt.Sprintf("in base64, after %d bytes", before)] = base64.StdEncoding.EncodeToString([]byte(part))
		texts[fmt.Sprintf("in base64, after %d bytes and before others", before)] = "data: " + base64.StdEncoding.EncodeToString([]byte(part+"/more"))
	}
	for name, text := range texts {
		if diff := cmp.Diff(want, values().In(text)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for name, text := range map[string]string{
		"nothing": "", "another": strings.ToUpper(planted), "only the beginning": planted[:len(planted)-1],
		"a public value": "application -----BEGIN CERTIFICATE-----\nMIIB -----BEGIN CERTIFICATE-----\nMIIC", "a short value": "1234567",
	} {
		if found := values().In(text); len(found) > 0 {
			t.Errorf("%s: found %q", name, found)
		}
	}
}

// TestInObject checks that a report names the path of a value without the value.
func TestInObject(t *testing.T) {
	object := map[string]any{
		"status":   map[string]any{"conditions": []any{map[string]any{"message": "fine"}, map[string]any{"message": "no login with " + planted}}},
		"metadata": map[string]any{"annotations": map[string]any{planted: "x"}, "generation": int64(3)},
	}
	const of = "key password of Secret shop/credentials, at "
	want := []string{of + ".metadata.annotations, as a key", of + ".status.conditions[1].message"}
	got := values().InObject(object)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(strings.Join(got, " "), planted) {
		t.Error("the report holds the value")
	}
}

func TestLen(t *testing.T) {
	v := values()
	v.Add("again", planted)
	if n := v.Len(); n != 1 {
		t.Errorf("%d values, want 1", n)
	}
}
