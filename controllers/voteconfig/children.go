package voteconfig

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	votingv1alpha1 "github.com/fettle-dev/fettle/api/voting/v1alpha1"
	"github.com/fettle-dev/fettle/internal/reconciler"
	"github.com/fettle-dev/fettle/internal/rollout"
)

// Labels of the ConfigMap.
const (
	ownerKind = "VoteConfig"

	// annotationHash, on the ConfigMap, is the hash of the data that was published last.
	annotationHash = "voting.fettle.dev/hash"
)

// Keys of the ConfigMap, in addition to those with the letter of an option.
const (
	keyText            = "options.txt"
	keyJSON            = "options.json"
	keyTitle           = "title"
	keyResultsTitle    = "results_title"
	keyMaxVotes        = "max_votes_per_user"
	keyEnvTitle        = "TITLE"
	keyEnvResultsTitle = "RESULTS_TITLE"
	keyEnvMaxVotes     = "MAX_VOTES_PER_USER"
	keyFirstValue      = "VOTE1VALUE"
	keySecondValue     = "VOTE2VALUE"
	prefixOption       = "option_"
	prefixEnvOption    = "OPTION_"
)

// colon replaces ':' in a label in options.txt, so that every line has three fields for every parser.
const colon = "\uff1a"

// configMapName is the name of the ConfigMap that vc publishes.
func configMapName(vc *votingv1alpha1.VoteConfig) string {
	return cmp.Or(vc.Spec.Target.ConfigMapName, vc.Name+"-config")
}

// configMap is the desired ConfigMap of vc with that data. live is the existing one, nil if there is none.
func configMap(vc *votingv1alpha1.VoteConfig, data map[string]string, live *corev1.ConfigMap, now time.Time) *corev1ac.ConfigMapApplyConfiguration {
	hash, stamp, changed := hashOf(data), "", false
	if live != nil {
		stamp, changed = live.Annotations[rollout.PublishedAnnotation], live.Annotations[annotationHash] != hash
	}
	return corev1ac.ConfigMap(configMapName(vc), vc.Namespace).
		WithLabels(reconciler.Labels(ownerKind, vc.Name, "voteconfig")).
		WithAnnotations(map[string]string{
			annotationHash:              hash,
			rollout.PublishedAnnotation: rollout.PublishedAt(stamp, live != nil, changed, now),
		}).
		WithData(data)
}

// owned reports whether live belongs to vc, or did before it lost its owner reference.
func owned(vc *votingv1alpha1.VoteConfig, live *corev1.ConfigMap) bool {
	if metav1.GetControllerOfNoCopy(live) != nil {
		return metav1.IsControlledBy(live, vc)
	}
	return live.Labels[reconciler.LabelOwnerKind] == ownerKind && live.Labels[reconciler.LabelOwnerName] == vc.Name
}

// changes reports whether live lacks data. Keys that other clients added do not count. A removed key shows in options.txt or
// options.json.
func changes(live *corev1.ConfigMap, data map[string]string) bool {
	for key, value := range data {
		if got, ok := live.Data[key]; !ok || got != value {
			return true
		}
	}
	return false
}

// holds reports whether live was published with data and is not being deleted.
func holds(live *corev1.ConfigMap, data map[string]string) bool {
	return live != nil && live.DeletionTimestamp == nil && live.Annotations[annotationHash] == hashOf(data)
}

// published returns the data of the ConfigMap: the options under all keys that vote applications read.
func published(spec *votingv1alpha1.VoteConfigSpec) map[string]string {
	data := map[string]string{
		keyText:  optionsText(spec.Options),
		keyJSON:  optionsJSON(spec),
		keyTitle: spec.Title, keyEnvTitle: spec.Title,
		keyResultsTitle: spec.ResultsTitle, keyEnvResultsTitle: spec.ResultsTitle,
	}
	for _, o := range spec.Options {
		data[prefixOption+o.ID] = o.Label
		data[prefixEnvOption+strings.ToUpper(o.ID)] = o.Label
	}
	for i, key := range []string{keyFirstValue, keySecondValue} {
		if i < len(spec.Options) {
			data[key] = spec.Options[i].Label
		}
	}
	if n := spec.MaxVotesPerUser; n != nil {
		data[keyMaxVotes] = strconv.Itoa(int(*n))
		data[keyEnvMaxVotes] = data[keyMaxVotes]
	}
	return data
}

// optionsText has a line "id:label:color" for each option. The third field is empty without a color.
func optionsText(options []votingv1alpha1.VoteOption) string {
	var b strings.Builder
	for _, o := range options {
		fmt.Fprintf(&b, "%s:%s:%s\n", o.ID, strings.ReplaceAll(o.Label, ":", colon), o.Color)
	}
	return b.String()
}

// optionsDocument is options.json.
type optionsDocument struct {
	Title           string           `json:"title"`
	ResultsTitle    string           `json:"resultsTitle"`
	MaxVotesPerUser *int32           `json:"maxVotesPerUser,omitempty"`
	Options         []documentOption `json:"options"`
}

type documentOption struct {
	ID    string `json:"id"`
	Label string `json:"label"`
	Color string `json:"color,omitempty"`
}

func optionsJSON(spec *votingv1alpha1.VoteConfigSpec) string {
	document := optionsDocument{Title: spec.Title, ResultsTitle: spec.ResultsTitle, MaxVotesPerUser: spec.MaxVotesPerUser}
	for _, o := range spec.Options {
		document.Options = append(document.Options, documentOption(o))
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false) // "Cats & Dogs" is read by people too
	if err := encoder.Encode(document); err != nil {
		panic(fmt.Errorf("encode %T: %w", document, err)) // strings and a number always have a JSON form
	}
	return b.String()
}

// hashOf is equal for equal data only.
func hashOf(data map[string]string) string {
	raw, err := json.Marshal(data) // sorts the keys
	if err != nil {
		panic(fmt.Errorf("encode %T: %w", data, err)) // strings always have a JSON form
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}

// summary lists the labels for `kubectl get`.
func summary(options []votingv1alpha1.VoteOption) string {
	texts := make([]string, len(options))
	for i, o := range options {
		texts[i] = o.Label
	}
	return strings.Join(texts, ",")
}
