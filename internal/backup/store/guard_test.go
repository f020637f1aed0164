package store

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
)

var s3Keys = Keys{Files: map[string][]byte{"access-key-id": []byte("AKIATESTTESTTEST"), "secret-access-key": []byte("wJalrXUtnFEMI/K7MDENG+key=")}}

func s3At(endpoint string) backupv1alpha1.Destination {
	return backupv1alpha1.Destination{Type: backupv1alpha1.StoreS3, Bucket: "backups", Endpoint: endpoint}
}

// reasonOf returns the reason with which a write to the destination fails.
func reasonOf(t *testing.T, d backupv1alpha1.Destination, keys Keys, opts ...Option) (string, error) {
	t.Helper()
	s, err := Open(t.Context(), d, keys, "shop/nightly", opts...)
	if err == nil {
		_, err = s.Write(t.Context(), "x", nil, text("x"))
	}
	if known := (*Error)(nil); errors.As(err, &known) {
		return known.Reason, err
	}
	return "", err
}

// attack 41: an endpoint must not reach the metadata of the cloud, this machine or the Kubernetes API.
func TestGuard_internalAddressesAreRefused(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	g := newGuard(false)
	for _, address := range []string{
		"169.254.169.254", "169.254.170.2", "127.0.0.1", "127.1.2.3", "0.0.0.0", "::", "::1", "fe80::1%eth0", "224.0.0.1", "ff02::1", "255.255.255.255",
		"::ffff:169.254.169.254", "::ffff:127.0.0.1", "64:ff9b::a9fe:a9fe", "fd00:ec2::254", "100.100.100.200", "168.63.129.16", "10.96.0.1", "::ffff:10.96.0.1",
	} {
		if g.check(netip.MustParseAddr(address)) == nil {
			t.Errorf("%s is permitted", address)
		}
	}
	for _, address := range []string{"10.96.0.2", "192.168.1.5", "52.216.0.1", "2600:1f60::1", "fd12::1"} {
		if err := g.check(netip.MustParseAddr(address)); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// attack 41: as above, through the library of each store, by address, by name and by scheme.
func TestOpen_internalEndpointsAreRefused(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "127.0.0.9")
	azure := Keys{Files: map[string][]byte{"account-name": []byte("account"), "account-key": []byte("a2V5")}}
	for _, endpoint := range []string{
		"http://169.254.169.254", "https://169.254.169.254/latest/meta-data", "http://localhost:6443", "https://127.0.0.1:443", "https://[::1]", "http://0.0.0.0:80",
		"http://[::ffff:169.254.169.254]", "https://127.0.0.9:443", "gopher://example.com", "file:///etc/passwd", "http://user@example.com", "https://example.com?x=y", "//x",
	} {
		if reason, err := reasonOf(t, s3At(endpoint), s3Keys); reason != backupv1alpha1.ReasonStoreInvalid {
			t.Errorf("s3 %s: %v", endpoint, err)
		}
		d := backupv1alpha1.Destination{Type: backupv1alpha1.StoreAzure, Bucket: "backups", Endpoint: endpoint}
		if reason, err := reasonOf(t, d, azure); reason != backupv1alpha1.ReasonStoreInvalid {
			t.Errorf("azure %s: %v", endpoint, err)
		}
	}
}

// attack 41: a name may resolve to a permitted address when it is checked and to another one when it is dialled; so the check is on the
// address of the connection.
func TestGuard_checksTheAddressOfTheConnection(t *testing.T) {
	hits := atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer server.Close()
	client, err := guard{}.client(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"localhost", "127.0.0.1"} { // one is resolved by the dialer only
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.Replace(server.URL, "127.0.0.1", host, 1), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if refused := (*addressError)(nil); !errors.As(err, &refused) {
			t.Errorf("%s: %v", host, err)
		}
		if err == nil {
			_ = response.Body.Close()
		}
	}
	if hits.Load() > 0 {
		t.Error("connected")
	}
}

// attack 41: a redirect must not lead to another server.
func TestStore_redirectIsNotFollowed(t *testing.T) {
	hits := atomic.Int32{}
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer target.Close()
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, target.URL+r.URL.Path, status)
		}))
		if reason, err := reasonOf(t, s3At(server.URL), s3Keys, PermitLoopback()); reason != backupv1alpha1.ReasonStoreInvalid || hits.Load() > 0 {
			t.Errorf("%d: %v, followed %d times", status, err, hits.Load())
		}
		server.Close()
	}
}

// attack 42: the token of a ServiceAccount must not go to a server of the author's choice, and the node's role must not be used.
func TestOpen_identityIsForProvidersOnly(t *testing.T) {
	t.Setenv("AZURE_CLIENT_ID", "id")
	t.Setenv("AZURE_TENANT_ID", "tenant")
	t.Setenv("AZURE_FEDERATED_TOKEN_FILE", "/dev/null")
	for _, kind := range []backupv1alpha1.StoreType{backupv1alpha1.StoreS3, backupv1alpha1.StoreGCS, backupv1alpha1.StoreAzure} {
		d := backupv1alpha1.Destination{Type: kind, Bucket: "backups", AccountName: "account"}
		if _, err := Open(t.Context(), d, Keys{}, "shop/nightly"); err == nil || !strings.Contains(err.Error(), "set credentialsSecretRef") {
			t.Errorf("%s without keys and ServiceAccount: %v", kind, err)
		}
		if kind == backupv1alpha1.StoreS3 {
			continue // its requests are signed, and have no token
		}
		d.ServiceAccountName = "backups"
		for _, endpoint := range []string{"https://attacker.example.com", "https://storage.googleapis.com.example.com", "http://storage.googleapis.com", "http://a.blob.core.windows.net"} {
			d.Endpoint = endpoint
			if _, err := Open(t.Context(), d, Keys{}, "shop/nightly"); err == nil || !strings.Contains(err.Error(), "workload identity") {
				t.Errorf("%s at %s: %v", kind, endpoint, err)
			}
		}
	}
}

// attack 42: other types of Google's keys run programs, read files and send tokens to any URL.
func TestOpen_onlyKeysOfServiceAccounts(t *testing.T) {
	d := backupv1alpha1.Destination{Type: backupv1alpha1.StoreGCS, Bucket: "backups"}
	for _, content := range []string{
		`{"type":"external_account","audience":"x","subject_token_type":"x","token_url":"https://attacker.example.com","credential_source":{"file":"/etc/shadow"}}`,
		`{"type":"authorized_user","client_id":"x","client_secret":"x","refresh_token":"very-secret"}`, `{}`, `very-secret`,
	} {
		_, err := Open(t.Context(), d, Keys{Files: map[string][]byte{"service-account.json": []byte(content)}}, "shop/nightly")
		if err == nil || strings.Contains(err.Error(), "very-secret") {
			t.Errorf("%s: %v", content, err)
		}
	}
}

// attack 42: a server must not send the token on to another host with the URL of an upload.
func TestOneHost_refusesOtherHosts(t *testing.T) {
	hits := atomic.Int32{}
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer other.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, other.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&oneHost{host: "storage.googleapis.com", next: http.DefaultTransport}).RoundTrip(request)
	if err == nil {
		_ = response.Body.Close()
	}
	if err == nil || hits.Load() > 0 {
		t.Error("sent")
	}
}

// attack 50: what a store answers must not carry keys or signed URLs into status, events and logs.
func TestStore_errorsHaveNoSecrets(t *testing.T) {
	id, secret := string(s3Keys.Files["access-key-id"]), string(s3Keys.Files["secret-access-key"])
	leak := fmt.Sprintf(`<Error><Code>Internal</Code><Message>https://bucket.example.com/a?X-Amz-Signature=0123456789abcdef&amp;X-Amz-Credential=%s `+
		`Authorization: AWS4-HMAC-SHA256 Credential=%s/2026, Signature=0123456789abcdef Bearer ya29.token-of-google key %s</Message></Error>`, id, id, secret)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprint(w, leak)
	}))
	defer server.Close()
	_, err := reasonOf(t, s3At(server.URL), s3Keys, PermitLoopback())
	if err == nil {
		t.Fatal("no error")
	}
	for _, word := range []string{id, secret, "0123456789abcdef", "ya29", "X-Amz-Signature"} {
		if strings.Contains(err.Error(), word) {
			t.Errorf("the error has %q: %v", word, err)
		}
	}
	if !strings.Contains(err.Error(), "403 Internal") {
		t.Errorf("the error lacks what the store said: %v", err)
	}
}

func TestRedactor_text(t *testing.T) {
	r := newRedactor(Keys{Files: map[string][]byte{
		"account-key": []byte("c2VjcmV0LWtleQ==\n"), "sas-token": []byte("?sv=2023&sig=abc%2Fdefghij%3D"),
		"service-account.json": []byte(`{"private_key":"-----BEGIN PRIVATE KEY-----\nMIIEvQ\n-----END PRIVATE KEY-----\n","private_key_id":"0011223344"}`),
	}})
	for _, secret := range []string{
		"c2VjcmV0LWtleQ==", "c2VjcmV0LWtleQ%3D%3D", "abc/defghij=", "abc%2Fdefghij%3D", "0011223344", "-----BEGIN PRIVATE KEY-----\nMIIEvQ\n-----END PRIVATE KEY-----",
		"-----BEGIN RSA PRIVATE KEY-----\nMIIother", "SharedKey account:c2ln", "https://x/y?se=2020&sig=other", `"access_token": "ya29.other"`, "AWSAccessKeyId=AKIAOTHER",
	} {
		got := r.text("before " + secret + " after")
		if !strings.HasPrefix(got, "before ") || strings.Contains(got, strings.Trim(secret[len(secret)/2:], `"`)) {
			t.Errorf("%q: %q", secret, got)
		}
	}
	if got := r.text("dial tcp: lookup store.invalid: no such host"); got != "dial tcp: lookup store.invalid: no such host" {
		t.Errorf("changed to %q", got)
	}
	if got := r.text(strings.Repeat("ä", 2*maxText)); len(got) > maxText+len("…") {
		t.Errorf("%d bytes", len(got))
	}
}
