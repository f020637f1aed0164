package appconfig

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
)

const (
	hashDigits = 32
	// nameDigits of a hash are in the names of kept revisions.
	nameDigits = 10
	// secretRounds slow down whoever can read names and annotations, but not Secrets, and tries to guess the contents.
	secretRounds = 100_000
	// hashesKept bounds the memory of slow hashes; one that was dropped is computed again.
	hashesKept = 10_000
	// renderVersion is raised when the same inputs are rendered to something else than in an earlier release.
	renderVersion = "1"
)

// hasher computes the hashes of contents, and remembers the slow ones.
type hasher struct{ slow *lru.Cache }

func newHasher() *hasher { return &hasher{slow: lru.New(hashesKept)} }

// of is the hash of all that c publishes. That of secret values is salted with the owner's UID and slow (PBKDF2, RFC 8018),
// since the hash is visible to people who may not read Secrets.
func (h *hasher) of(owner types.UID, c content) (string, error) {
	sum := sha256.New()
	writeMap(sum, c.data)
	if len(c.secret) > 0 {
		digest, err := h.ofSecret(owner, c.secret)
		if err != nil {
			return "", err
		}
		_, _ = io.WriteString(sum, "secret "+digest)
	}
	return hex.EncodeToString(sum.Sum(nil))[:hashDigits], nil
}

func (h *hasher) ofSecret(owner types.UID, secret map[string]string) (string, error) {
	sum := sha256.New()
	writeMap(sum, secret)
	quick := string(owner) + "/" + string(sum.Sum(nil))
	if known, ok := h.slow.Get(quick); ok {
		return known.(string), nil
	}
	key, err := pbkdf2.Key(sha256.New, quick, []byte(owner), secretRounds, hashDigits/2)
	if err != nil {
		return "", fmt.Errorf("hash of the secret keys: %w", err)
	}
	digest := hex.EncodeToString(key)
	h.slow.Add(quick, digest)
	return digest, nil
}

func writeMap(w io.Writer, m map[string]string) {
	_, _ = fmt.Fprintf(w, "%d;", len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		_, _ = fmt.Fprintf(w, "%d:%s%d:%s", len(k), k, len(m[k]), m[k])
	}
}

// inputsKey names all that the content of cfg is rendered from: the parts of the spec, and the versions of the objects of
// spec.valuesFrom. What was published carries it, so that those need not be read again to know that nothing changed.
func inputsKey(cfg *configv1.AppConfig, sources []source) string {
	versions := make([]string, 0, len(sources))
	for _, s := range sources {
		versions = append(versions, s.kind+"/"+s.name+"="+s.version)
	}
	in := renderInput(cfg, nil)
	raw, err := json.Marshal([]any{
		renderVersion, cfg.UID, in.Application, in.Environment, in.Values, in.Config, in.Files,
		cfg.Spec.ValuesFrom, cfg.Spec.Schema, versions,
	})
	if err != nil {
		panic(fmt.Sprintf("spec of AppConfig %s/%s has no JSON form: %v", cfg.Namespace, cfg.Name, err))
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])[:hashDigits]
}
