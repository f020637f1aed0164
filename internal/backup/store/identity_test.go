package store_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/store"
	"github.com/fettle-dev/fettle/internal/testenv/fakes3"
	"github.com/fettle-dev/fettle/internal/testenv/teststores"
)

// What the fakes of the token services know.
const (
	federated   = "federated-token-of-the-pod"
	temporary   = "temporary-token"
	azureTenant = "00000000-0000-0000-0000-000000000001"
	azureClient = "00000000-0000-0000-0000-000000000002"
	entraHost   = "login.microsoftonline.com"
	awsRole     = "arn:aws:iam::111122223333:role/backup-writer"
)

// refusal is the answer of a token service; with the status 0, it grants.
type refusal struct {
	status     int
	code, says string
}

// identity is access to a server by workload identity, as its cloud sets it up in a pod.
type identity struct {
	server  teststores.Server
	options []store.Option
	// stored counts the requests to the store that carry the credentials of the token service.
	stored *atomic.Int32
}

// TestServers_workloadIdentity: with fakes of the clouds' token services, a pod without keys writes and reads with what the token service
// gives it. What the token service refuses is reported as what the store refuses.
func TestServers_workloadIdentity(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(federated), 0o600); err != nil {
		t.Fatal(err)
	}
	s3 := teststores.Server{Type: backupv1alpha1.StoreS3}
	for _, server := range append(teststores.Start(t, backupv1alpha1.StoreGCS, backupv1alpha1.StoreAzure), s3) {
		setUp := map[backupv1alpha1.StoreType]func(*testing.T, teststores.Server, string, refusal) identity{
			backupv1alpha1.StoreS3: amazonIdentity, backupv1alpha1.StoreGCS: googleIdentity, backupv1alpha1.StoreAzure: azureIdentity,
		}[server.Type]
		open := func(t *testing.T, i identity, options ...store.Option) *store.Store {
			i.server.Keys.Files, i.server.Destination.CredentialsSecretRef, i.server.Destination.ServiceAccountName = nil, nil, "backup-writer"
			return i.server.Open(t, folder, append(options, i.options...)...)
		}
		t.Run(string(server.Type)+"/granted", func(t *testing.T) {
			i := setUp(t, server, file, refusal{})
			s := open(t, i)
			if _, err := s.Write(t.Context(), "runs/a/x", nil, from(random(1000))); err != nil {
				t.Fatal(err)
			}
			readSame(t, s, "runs/a/x", 1000)
			if i.stored.Load() == 0 {
				t.Error("no request to the store carries the credentials of the token service")
			}
		})
		for name, r := range refusals[server.Type] {
			t.Run(string(server.Type)+"/"+name, func(t *testing.T) {
				i := setUp(t, server, file, r)
				s := open(t, i, store.Impatient())
				_, err := s.Write(t.Context(), "runs/b/x", nil, from(random(1000)))
				checkRefusal(t, err, r)
				if _, err := s.Read(t.Context(), "runs/a/x"); errors.Is(err, store.ErrNotFound) {
					t.Error("a refused token looks like a missing object")
				} else {
					checkRefusal(t, err, r)
				}
				if i.stored.Load() > 0 {
					t.Error("the store was asked with refused credentials")
				}
			})
		}
	}
}

var refusals = map[backupv1alpha1.StoreType]map[string]refusal{
	backupv1alpha1.StoreS3: {
		"token expired": {http.StatusBadRequest, "ExpiredTokenException", "Token expired"},
		"role revoked":  {http.StatusForbidden, "AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity"},
	},
	backupv1alpha1.StoreGCS: {
		"role revoked": {http.StatusForbidden, "", "Permission 'iam.serviceAccounts.getAccessToken' denied"},
		"account lost": {http.StatusNotFound, "", "not defined"},
	},
	backupv1alpha1.StoreAzure: {
		"token expired": {http.StatusUnauthorized, "invalid_client", "AADSTS700024: Client assertion is not within its valid time range"},
		"role revoked":  {http.StatusBadRequest, "unauthorized_client", "AADSTS700016: Application was not found"},
		"unavailable":   {http.StatusServiceUnavailable, "temporarily_unavailable", "try again"},
	},
}

// checkRefusal checks that an error says what the token service said, and has no credentials.
func checkRefusal(t *testing.T, err error, r refusal) {
	t.Helper()
	want := backupv1alpha1.ReasonStoreForbidden
	if r.status >= http.StatusInternalServerError {
		want = backupv1alpha1.ReasonStoreFailed
	}
	known := (*store.Error)(nil)
	if !errors.As(err, &known) || known.Reason != want || known.Permanent != (want == backupv1alpha1.ReasonStoreForbidden) {
		t.Fatalf("want %s: %#v\n%v", want, known, err)
	}
	if !strings.Contains(known.Message, r.code) || !strings.Contains(known.Message, r.says) || known.Permanent && !strings.Contains(known.Message, "correct the ServiceAccount") {
		t.Errorf("lacks %q, %q or what to do: %s", r.code, r.says, known.Message)
	}
	if strings.Contains(known.Message, federated) || strings.Contains(known.Message, temporary) {
		t.Errorf("has a token: %s", known.Message)
	}
}

// counting counts requests with a value in a header, and refuses others.
func counting(n *atomic.Int32, header, value string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.Contains(r.Header.Get(header), value) {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			n.Add(1)
			next.ServeHTTP(w, r)
		})
	}
}

// host is the address of a server.
func host(server teststores.Server) string {
	address, _, _ := strings.Cut(strings.TrimPrefix(server.Destination.Endpoint, "https://"), "/")
	return address
}

// amazonIdentity is a fake of AWS STS, for the environment that EKS gives a pod. The store is a fake too: versitygw takes no session token.
func amazonIdentity(t *testing.T, _ teststores.Server, file string, r refusal) identity {
	sts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		for field, want := range map[string]string{"Action": "AssumeRoleWithWebIdentity", "RoleArn": awsRole, "WebIdentityToken": federated} {
			if got := request.PostFormValue(field); got != want {
				t.Errorf("%s is %q, want %q", field, got, want)
			}
		}
		w.Header().Set("Content-Type", "text/xml")
		if r.status > 0 {
			w.WriteHeader(r.status)
			_, _ = fmt.Fprintf(w, `<ErrorResponse><Error><Type>Sender</Type><Code>%s</Code><Message>%s</Message></Error></ErrorResponse>`, r.code, r.says)
			return
		}
		_, _ = fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>%s</AccessKeyId>`+
			`<SecretAccessKey>%[1]s</SecretAccessKey><SessionToken>%[1]s</SessionToken><Expiration>%[2]s</Expiration></Credentials>`+
			`</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`,
			temporary, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	}))
	t.Cleanup(sts.Close)
	for name, value := range map[string]string{
		"AWS_ROLE_ARN": awsRole, "AWS_WEB_IDENTITY_TOKEN_FILE": file, "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL_STS": sts.URL,
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
	} {
		t.Setenv(name, value)
	}
	stored, fake := &atomic.Int32{}, fakes3.Start(t)
	fake.Intercept = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("X-Amz-Security-Token") != temporary || !strings.Contains(r.Header.Get("Authorization"), "Credential="+temporary+"/") {
			t.Errorf("%s has other keys: %v", r.URL, r.Header)
		}
		stored.Add(1)
		return false
	}
	return identity{server: teststores.Server{Destination: fake.Destination()}, stored: stored}
}

// googleIdentity is a fake of GKE's metadata server.
func googleIdentity(t *testing.T, server teststores.Server, _ string, r refusal) identity {
	instance := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		w.Header().Set("Metadata-Flavor", "Google")
		switch path := strings.TrimPrefix(request.URL.Path, "/computeMetadata/v1/"); {
		case request.Header.Get("Metadata-Flavor") != "Google" || path != "project/project-id" && path != "instance/service-accounts/default/token":
			t.Errorf("asks for %s with %v", path, request.Header)
		case r.status > 0:
			http.Error(w, r.says, r.status)
		case path == "project/project-id":
			_, _ = io.WriteString(w, "my-project")
		default:
			_, _ = fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":3600}`, temporary)
		}
	}))
	t.Cleanup(instance.Close)
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(instance.URL, "http://"))
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "")
	t.Setenv("HOME", t.TempDir())
	stored, address := &atomic.Int32{}, host(server)
	front := server.Through(t, func(next http.Handler) http.Handler {
		return counting(stored, "Authorization", "Bearer "+temporary)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Host = address
			next.ServeHTTP(w, r)
		}))
	})
	route := store.Route("storage.googleapis.com:443", host(front))
	front.Destination.Endpoint = ""
	return identity{front, []store.Option{route}, stored}
}

// azureIdentity is a fake of Microsoft Entra ID, for the environment that Azure's webhook gives a pod.
func azureIdentity(t *testing.T, server teststores.Server, file string, r refusal) identity {
	claims := fmt.Sprintf(`{"aud":"https://storage.azure.com","iss":"https://sts.windows.net/%s/","iat":%d,"nbf":%[2]d,"exp":%[3]d}`,
		azureTenant, time.Now().Add(-time.Minute).Unix(), time.Now().Add(time.Hour).Unix())
	encode := base64.RawURLEncoding.EncodeToString
	token := encode([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + encode([]byte(claims)) + "." + encode([]byte(temporary))
	entra := server.Through(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			base := "https://" + entraHost + "/" + azureTenant
			switch {
			case strings.HasSuffix(request.URL.Path, "/discovery/instance"):
				_, _ = fmt.Fprintf(w, `{"tenant_discovery_endpoint":"%s/v2.0/.well-known/openid-configuration","metadata":[]}`, base)
			case strings.HasSuffix(request.URL.Path, "/openid-configuration"):
				_, _ = fmt.Fprintf(w, `{"token_endpoint":"%s/oauth2/v2.0/token","authorization_endpoint":"%[1]s/authorize","issuer":"%[1]s/v2.0"}`, base)
			case request.PostFormValue("client_assertion") != federated || request.PostFormValue("client_id") != azureClient:
				t.Errorf("%s with %v", request.URL, request.PostForm)
			case r.status > 0:
				w.WriteHeader(r.status)
				_, _ = fmt.Fprintf(w, `{"error":%q,"error_description":%q}`, r.code, r.says)
			default:
				_, _ = fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":3600}`, token)
			}
		})
	})
	for name, value := range map[string]string{
		"AZURE_CLIENT_ID": azureClient, "AZURE_TENANT_ID": azureTenant, "AZURE_FEDERATED_TOKEN_FILE": file, "AZURE_AUTHORITY_HOST": "https://" + entraHost + "/",
	} {
		t.Setenv(name, value)
	}
	stored := &atomic.Int32{}
	front := server.Through(t, counting(stored, "Authorization", "Bearer "+token))
	account := string(server.Keys.Files["account-name"])
	routes := []store.Option{store.Route(entraHost+":443", host(entra)), store.Route(account+".blob.core.windows.net:443", host(front))}
	front.Destination.Endpoint, front.Destination.AccountName = "", account
	return identity{front, routes, stored}
}
