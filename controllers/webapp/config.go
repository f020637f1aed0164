package webapp

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
)

const (
	kindConfigMap = "ConfigMap"
	kindSecret    = "Secret"
	kindAppConfig = "AppConfig"

	digestDigits = 32
	// secretRounds slow down whoever can read pods, but not Secrets, and tries to guess the contents from the hash.
	secretRounds = 100_000
)

// configState is what was found of one of spec.configRefs.
type configState struct {
	ref   appsv1.ConfigRef
	found bool
	// version of the object (its UID and resourceVersion) at which the contents were last seen to change.
	version string
	// digest of the contents.
	digest string
	// appConfig is the AppConfig that publishes it, or that it is: what restarts the pods is then the rollout of that
	// AppConfig, and neither version nor digest is known.
	appConfig string
}

// seenConfig is what the Deployment remembers of a reference.
type seenConfig struct {
	Version string `json:"version"`
	Digest  string `json:"digest"`
}

// sight is what was found of a reference.
type sight struct {
	seenConfig
	found bool
	// publisher is the AppConfig that publishes it, and whose rollout restarts the pods; "" if none does.
	publisher string
}

func refKey(ref appsv1.ConfigRef) string { return ref.Kind + "/" + ref.Name }

// configMissing returns the first reference that is needed and does not exist.
func configMissing(config []configState) *appsv1.ConfigRef {
	for i := range config {
		if !config[i].found && !config[i].ref.Optional {
			return &config[i].ref
		}
	}
	return nil
}

// configHash is the hash of all that is referenced, and is not an AppConfig's; "" when nothing is.
func configHash(config []configState) string {
	lines := make([]string, 0, len(config))
	for _, c := range config {
		if c.appConfig == "" {
			lines = append(lines, refKey(c.ref)+"="+c.digest)
		}
	}
	if len(lines) == 0 {
		return ""
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(sum[:])[:digestDigits]
}

// appConfigs are the names of the AppConfigs that are used, sorted and separated by commas.
func appConfigs(config []configState) string {
	var names []string
	for _, c := range config {
		if c.appConfig != "" {
			names = append(names, c.appConfig)
		}
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ",")
}

// configSeen is what the Deployment should remember; "" when nothing is referenced.
func configSeen(config []configState) string {
	seen := map[string]seenConfig{}
	for _, c := range config {
		if c.found && c.appConfig == "" {
			seen[refKey(c.ref)] = seenConfig{Version: c.version, Digest: c.digest}
		}
	}
	if len(seen) == 0 {
		return ""
	}
	raw, err := json.Marshal(seen)
	if err != nil {
		panic(fmt.Sprintf("strings have no JSON form: %v", err))
	}
	return string(raw)
}

// rememberedConfig reads what a Deployment remembers. What can't be read counts as not there: it is found out again.
func rememberedConfig(annotation string) map[string]seenConfig {
	seen := map[string]seenConfig{}
	if err := json.Unmarshal([]byte(annotation), &seen); err != nil {
		return nil
	}
	return seen
}

// digestConfigMap is a hash of the contents, and of nothing else: labels and annotations may change freely.
func digestConfigMap(cm *corev1.ConfigMap) string {
	h := sha256.New()
	for _, k := range slices.Sorted(maps.Keys(cm.Data)) {
		_, _ = fmt.Fprintf(h, "s%d:%s%d:%s", len(k), k, len(cm.Data[k]), cm.Data[k])
	}
	for _, k := range slices.Sorted(maps.Keys(cm.BinaryData)) {
		_, _ = fmt.Fprintf(h, "b%d:%s%d:%s", len(k), k, len(cm.BinaryData[k]), cm.BinaryData[k])
	}
	return hex.EncodeToString(h.Sum(nil))[:digestDigits]
}

// digestSecret is a hash of the contents that is salted with the Secret's UID and slow, since it becomes visible in
// the annotations of pods (PBKDF2, RFC 8018).
func digestSecret(s *corev1.Secret) (string, error) {
	h := sha256.New()
	for _, k := range slices.Sorted(maps.Keys(s.Data)) {
		_, _ = fmt.Fprintf(h, "%d:%s%d:%s", len(k), k, len(s.Data[k]), s.Data[k])
	}
	key, err := pbkdf2.Key(sha256.New, string(h.Sum(nil)), []byte(s.UID), secretRounds, digestDigits/2)
	if err != nil {
		return "", fmt.Errorf("hash of Secret %q: %w", s.Name, err)
	}
	return hex.EncodeToString(key), nil
}
