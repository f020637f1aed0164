package appconfig

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	"github.com/fettle-dev/fettle/internal/digest"
)

const (
	hashDigits = 32
	// renderVersion is increased when the same inputs render to different contents than in an earlier release.
	renderVersion = "1"
)

// contentHash is the hash of the contents of c. Secret values enter through a keyed digest, since people can see the hash who may
// not read Secrets.
func contentHash(key digest.Key, owner types.UID, c content) string {
	sum := sha256.New()
	writeMap(sum, c.data)
	if len(c.secret) > 0 {
		secret := key.New()
		_, _ = fmt.Fprintf(secret, "%s/", owner)
		writeMap(secret, c.secret)
		_, _ = fmt.Fprintf(sum, "secret %x", secret.Sum(nil))
	}
	return hex.EncodeToString(sum.Sum(nil))[:hashDigits]
}

// hash returns the hash of the contents, with the key of the installation.
func (r *Reconciler) hash(ctx context.Context, owner types.UID, c content) (string, error) {
	if len(c.secret) == 0 {
		return contentHash(nil, owner, c), nil
	}
	key, err := r.digests.Key(ctx)
	return contentHash(key, owner, c), err
}

// hashOfKept returns the hash of the existing copy of the contents: a copy with another key, or from a release without one, is not a
// new revision. "" if there is none. The published objects are no proof, since other clients may have edited them.
func (e existing) hashOfKept(c content) string {
	for _, known := range e.kept {
		if known.complete && same(known.content, c) {
			return known.hash
		}
	}
	return ""
}

func writeMap(w io.Writer, m map[string]string) {
	_, _ = fmt.Fprintf(w, "%d;", len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		_, _ = fmt.Fprintf(w, "%d:%s%d:%s", len(k), k, len(m[k]), m[k])
	}
}

// inputsKey identifies everything that the contents of cfg are rendered from: the parts of the spec, and the versions of the objects
// of spec.valuesFrom. The published objects carry it. The sources need not be read again to know that nothing changed.
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
