// Package digest makes digests of the contents of Secrets. The digests are keyed with a random key of the installation (HMAC-SHA256, RFC
// 2104), so the contents cannot be found by guessing. The key can be read only with permission to read the Secrets of the operator's
// namespace. Digests can be read by every user who may read workloads, ConfigMaps or status.
//
// # Invariants
//
//  1. All replicas use one key. It is created once, survives restarts and upgrades, and is never replaced while its Secret exists.
//  2. Digests with different keys cannot be compared; [Key.ID] identifies the key. A digest with another key, or of an earlier release
//     without keys, counts as the digest of the present contents. The loss of a key restarts no workload.
package digest

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// SecretName is the name of the Secret with the key, in the operator's namespace.
	SecretName = "fettle-digest-key" //nolint:gosec // a name
	dataKey    = "key"
	keySize    = 32
	// IDDigits is the length of [Key.ID].
	IDDigits = 8
)

// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create

// Key of an installation.
type Key []byte

// New returns a hash whose sums are the digests.
func (k Key) New() hash.Hash { return hmac.New(sha256.New, k) }

// ID identifies the key and reveals nothing of it: IDDigits hexadecimal digits.
func (k Key) ID() string {
	h := k.New()
	_, _ = h.Write([]byte("id"))
	return hex.EncodeToString(h.Sum(nil))[:IDDigits]
}

// Keyring reads the key on first use, and creates it if it does not exist. It is safe for concurrent use.
type Keyring struct {
	client client.Client
	live   client.Reader
	name   client.ObjectKey

	mu  sync.Mutex
	key Key
}

// NewKeyring returns the keyring of an operator in namespace.
func NewKeyring(mgr ctrl.Manager, namespace string) *Keyring {
	return &Keyring{client: mgr.GetClient(), live: mgr.GetAPIReader(), name: client.ObjectKey{Namespace: namespace, Name: SecretName}}
}

// Key returns the key. The process keeps it: the deletion of the Secret takes effect at the next start.
func (r *Keyring) Key(ctx context.Context) (Key, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.key != nil {
		return r.key, nil
	}
	secret, err := r.find(ctx)
	if apierrors.IsNotFound(err) {
		secret, err = r.create(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("digest key in Secret %s: %w", r.name, err)
	}
	if len(secret.Data[dataKey]) != keySize {
		return nil, fmt.Errorf("digest key in Secret %s: %q does not have %d bytes: restore the Secret, or delete it (no workload restarts)",
			r.name, dataKey, keySize)
	}
	r.key = secret.Data[dataKey]
	return r.key, nil
}

// find reads the cache first, which may not hold the operator's namespace.
func (r *Keyring) find(ctx context.Context) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	if r.client.Get(ctx, r.name, secret) == nil {
		return secret, nil
	}
	return secret, r.live.Get(ctx, r.name, secret)
}

func (r *Keyring) create(ctx context.Context) (*corev1.Secret, error) {
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // never fails
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.name.Namespace, Name: r.name.Name, Labels: map[string]string{
			"app.kubernetes.io/name": "fettle", "app.kubernetes.io/managed-by": "fettle",
		}},
		Immutable: new(true),
		Data:      map[string][]byte{dataKey: key},
	}
	err := r.client.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) { // another replica was faster
		err = r.live.Get(ctx, r.name, secret)
	}
	return secret, err
}
