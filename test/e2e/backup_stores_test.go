package e2e

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/rsa"
	cryptotls "crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/postgres/pki"
)

// bucket is the bucket of every store.
const bucket = "backups"

// objectStore is a server of the image of hack/image/recipes.sh.
type objectStore struct {
	name string
	kind backupv1alpha1.StoreType
	port int
	// command and environment of the server. HOST is replaced by its DNS name.
	command []string
	env     map[string]string
	// keys are the contents of the Secret for Backups.
	keys func(host string) map[string]string
	path string // of the endpoint
}

const (
	storeUser   = "backupuser"
	storeSecret = "c2VjcmV0IGtleSBvZiB0aGUgc3RvcmU=" // base64, as Azure wants it
)

// objectStores are one for each type. Each serves TLS and keeps its objects on a volume.
var objectStores = []objectStore{{
	name: "s3", kind: backupv1alpha1.StoreS3, port: 7070,
	command: []string{"versitygw", "--port", ":7070", "--cert", "/tls/tls.crt", "--key", "/tls/tls.key", "--quiet", "posix", "/data"},
	env:     map[string]string{"ROOT_ACCESS_KEY": storeUser, "ROOT_SECRET_KEY": storeSecret},
	keys: func(string) map[string]string {
		return map[string]string{"access-key-id": storeUser, "secret-access-key": storeSecret}
	},
}, {
	name: "gcs", kind: backupv1alpha1.StoreGCS, port: 4443,
	command: []string{"node", "-e", gcsProgram, "fake-gcs-server", "-port", "4443", "-cert-location", "/tls/tls.crt", "-private-key-location", "/tls/tls.key",
		"-backend", "filesystem", "-filesystem-root", "/data", "-public-host", "HOST:4443", "-external-url", "https://HOST:4443", "-log-level", "warn"},
	keys: func(host string) map[string]string {
		return map[string]string{"service-account.json": serviceAccount("https://" + host + ":4444/token")}
	},
}, {
	name: "azure", kind: backupv1alpha1.StoreAzure, port: 10000,
	command: []string{"azurite-blob", "--blobHost", "0.0.0.0", "--blobPort", "10000", "--cert", "/tls/tls.crt", "--key", "/tls/tls.key", "--location", "/data",
		"--disableTelemetry", "--skipApiVersionCheck", "--disableProductStyleUrl", "--silent"},
	env: map[string]string{"AZURITE_ACCOUNTS": storeUser + ":" + storeSecret},
	keys: func(string) map[string]string {
		return map[string]string{"account-name": storeUser, "account-key": storeSecret}
	},
	path: "/" + storeUser,
}}

// gcsProgram runs its arguments, and the server of tokens that fake-gcs-server lacks.
const gcsProgram = `
const [program, ...args] = process.argv.slice(1), fs = require("fs")
const tls = {cert: fs.readFileSync("/tls/tls.crt"), key: fs.readFileSync("/tls/tls.key")}
const token = JSON.stringify({access_token: "e2e", token_type: "Bearer", expires_in: 3600})
require("https").createServer(tls, (_, r) => { r.setHeader("Content-Type", "application/json"); r.end(token) }).listen(4444)
require("child_process").spawn(program, args, {stdio: "inherit"}).on("exit", code => process.exit(code))
`

// serviceAccount is the key of a service account whose tokens come from a server.
func serviceAccount(tokens string) string {
	GinkgoHelper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	Expect(err).NotTo(HaveOccurred())
	der, err := x509.MarshalPKCS8PrivateKey(key)
	Expect(err).NotTo(HaveOccurred())
	return inline(map[string]string{
		"type": "service_account", "project_id": "e2e", "private_key_id": "1", "client_id": "1", "client_email": "e2e@e2e.iam.gserviceaccount.com",
		"token_uri": tokens, "private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
}

func storesImage() string { return cmp.Or(os.Getenv("STORES_IMG"), "ghcr.io/fettle-dev/stores:test") }

// startStores runs the stores with an empty bucket each, and a Secret "tls" with their CA.
func (n namespaced) startStores(ctx context.Context, stores ...objectStore) {
	GinkgoHelper()
	ca, err := pki.NewCA("stores of the tests", time.Now())
	Expect(err).NotTo(HaveOccurred())
	var hosts []string
	for _, s := range stores {
		hosts = append(hosts, n.host(s.name))
	}
	pair, err := ca.Server(hosts, time.Now())
	Expect(err).NotTo(HaveOccurred())
	Expect(k8s.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: n.name, Name: "tls"}, Data: map[string][]byte{
		"tls.crt": pair.Certificate, "tls.key": pair.Key, "ca.crt": ca.Certificate,
	}})).To(Succeed())
	for _, s := range stores {
		n.apply(ctx, n.storeManifest(s))
	}
	for _, s := range stores {
		n.run(ctx, "rollout", "status", "deployment/"+s.name, "--timeout=300s")
	}
}

// host is the DNS name of a Service.
func (n namespaced) host(service string) string { return service + "." + n.name + ".svc" }

func (n namespaced) storeManifest(s objectStore) string {
	GinkgoHelper()
	env := []corev1.EnvVar{}
	for name, value := range s.env {
		env = append(env, corev1.EnvVar{Name: name, Value: value})
	}
	return fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec: {selector: {app: %[1]s}, ports: [{name: store, port: %[2]d}, {name: tokens, port: 4444}]}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %[1]s}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  strategy: {type: Recreate}
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      automountServiceAccountToken: false
      terminationGracePeriodSeconds: 1
      securityContext: {runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
      initContainers:
      - name: bucket
        image: %[3]s
        command: [mkdir, -p, /data/%[6]s]
        securityContext: &restricted {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
        volumeMounts: [{name: data, mountPath: /data}]
      containers:
      - name: store
        image: %[3]s
        command: %[4]s
        env: %[5]s
        securityContext: *restricted
        readinessProbe: {tcpSocket: {port: %[2]d}, periodSeconds: 1}
        volumeMounts: [{name: data, mountPath: /data}, {name: tls, mountPath: /tls}, {name: tmp, mountPath: /tmp}]
      volumes:
      - {name: data, persistentVolumeClaim: {claimName: %[1]s}}
      - {name: tls, secret: {secretName: tls}}
      - {name: tmp, emptyDir: {}}
`, s.name, s.port, storesImage(), strings.ReplaceAll(inline(s.command), "HOST", n.host(s.name)), inline(env), bucket)
}

// useStore creates the Secrets of a store, "<name>-keys" and "<name>-ca", in a namespace.
func (n namespaced) useStore(ctx context.Context, stores namespaced, s objectStore) {
	GinkgoHelper()
	tls := &corev1.Secret{}
	Expect(k8s.Get(ctx, client.ObjectKey{Namespace: stores.name, Name: "tls"}, tls)).To(Succeed())
	for name, data := range map[string]map[string]string{s.name + "-keys": s.keys(stores.host(s.name)), s.name + "-ca": {"ca.crt": string(tls.Data["ca.crt"])}} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: n.name, Name: name}, StringData: data}
		Expect(k8s.Create(ctx, secret)).To(Succeed())
	}
}

// destination is the bucket of a store with the Secrets of useStore.
func (s objectStore) destination(stores namespaced) backupv1alpha1.Destination {
	return backupv1alpha1.Destination{
		Type: s.kind, Bucket: bucket, Prefix: "e2e", Endpoint: fmt.Sprintf("https://%s:%d%s", stores.host(s.name), s.port, s.path),
		CASecretRef:          &fettlev1.SecretKeyReference{Name: s.name + "-ca"},
		CredentialsSecretRef: &fettlev1.LocalReference{Name: s.name + "-keys"},
	}
}

// objects lists the files of a store's bucket below a folder.
func (n namespaced) objects(s objectStore, folder string) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		output, err := n.try(ctx, "exec", "deployment/"+s.name, "-c", "store", "--", "find", "/data/"+bucket+"/"+folder, "-type", "f", "-printf", `%P\n`)
		return strings.Fields(output), err
	}
}

// createAzureContainer creates the bucket of the Azure store: its server, unlike the others, does not find one that is a folder.
func createAzureContainer(ctx context.Context, stores namespaced) {
	GinkgoHelper()
	azure := objectStores[2]
	tls := &corev1.Secret{}
	Expect(k8s.Get(ctx, client.ObjectKey{Namespace: stores.name, Name: "tls"}, tls)).To(Succeed())
	roots := x509.NewCertPool()
	Expect(roots.AppendCertsFromPEM(tls.Data["ca.crt"])).To(BeTrue())
	address := stores.run(ctx, "get", "service", azure.name, "-o", "jsonpath={.spec.clusterIP}")
	transport := &http.Transport{TLSClientConfig: &cryptotls.Config{RootCAs: roots, ServerName: stores.host(azure.name), MinVersion: cryptotls.VersionTLS12}}
	login, err := container.NewSharedKeyCredential(storeUser, storeSecret)
	Expect(err).NotTo(HaveOccurred())
	c, err := container.NewClientWithSharedKeyCredential(fmt.Sprintf("https://%s:%d%s/%s", address, azure.port, azure.path, bucket), login,
		&container.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: &http.Client{Transport: transport}}})
	Expect(err).NotTo(HaveOccurred())
	_, err = c.Create(ctx, nil)
	Expect(err).NotTo(HaveOccurred())
}
