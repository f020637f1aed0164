package postgresql

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
)

// restartRequests is what people ask of a pod, and what it is replaced for when that changes. What an operator puts into the template of its
// own is not in it: a new operator, whose template looks different, restarts no database. Pods that are made anew for another
// reason get the new template, with the agent that they had: so a template has to suit the agents of earlier releases, and what
// does not is asked for with the agent's image.
//
// What can't be changed is left out, as bootstrap is. The hash goes by the JSON form: so nothing is renamed here, and what is added
// is left out where nobody asks for it.
type restartRequests struct {
	Agent                         string                      `json:"agent"`
	Image                         string                      `json:"image"`
	User                          int64                       `json:"user"`
	ImagePullPolicy               corev1.PullPolicy           `json:"imagePullPolicy,omitempty"`
	ImagePullSecrets              []fettlev1.LocalReference   `json:"imagePullSecrets,omitempty"`
	Resources                     corev1.ResourceRequirements `json:"resources,omitzero"`
	TerminationGracePeriodSeconds int64                       `json:"terminationGracePeriodSeconds"`
	PriorityClassName             string                      `json:"priorityClassName,omitempty"`
	NodeSelector                  map[string]string           `json:"nodeSelector,omitempty"`
	Tolerations                   []corev1.Toleration         `json:"tolerations,omitempty"`
	Affinity                      *corev1.Affinity            `json:"affinity,omitempty"`
	TopologySpread                bool                        `json:"topologySpread,omitempty"`
	Restart                       string                      `json:"restart,omitempty"`
}

// revisionOf is the hash of what pg asks of its pods, with that image of the agent.
func revisionOf(pg *databasev1alpha1.PostgreSQL, agentImage string) string {
	spec := &pg.Spec
	return hashOf(restartRequests{
		Agent: agentImage, Image: pg.Spec.EffectiveImage(), User: user(pg),
		ImagePullPolicy: spec.ImagePullPolicy, ImagePullSecrets: spec.ImagePullSecrets, Resources: spec.Resources,
		TerminationGracePeriodSeconds: *spec.TerminationGracePeriodSeconds,
		PriorityClassName:             spec.PriorityClassName, NodeSelector: spec.NodeSelector, Tolerations: spec.Tolerations,
		Affinity: spec.Affinity, TopologySpread: spec.TopologySpread != nil && *spec.TopologySpread,
		Restart: pg.Annotations[databasev1alpha1.AnnotationRestart],
	})
}

// hashOf is a short hash of what v is in JSON.
func hashOf(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("%T has no JSON form: %v", v, err)) // a mistake in this package
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}
