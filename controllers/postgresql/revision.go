package postgresql

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/podtemplate"
)

// restartRequests is what users ask of a pod: a change of it replaces the pods. What the operator adds to the template is left out, and so
// is the image of the agent: an upgraded operator, whose template looks different, restarts no database. A pod that is re-created for
// another reason gets the new template. Which agent it gets, and whether pods are replaced for that, is decided by
// spec.agentUpdatePolicy, see agentImage.
//
// Fields that cannot be changed are left out, as bootstrap is. The hash depends on the JSON form: never rename a field here, and
// leave a new one out where it is not set.
type restartRequests struct {
	Image                         string                            `json:"image"`
	User                          int64                             `json:"user"`
	ImagePullPolicy               corev1.PullPolicy                 `json:"imagePullPolicy,omitempty"`
	ImagePullSecrets              []fettlev1.LocalReference         `json:"imagePullSecrets,omitempty"`
	Resources                     corev1.ResourceRequirements       `json:"resources,omitzero"`
	TerminationGracePeriodSeconds int64                             `json:"terminationGracePeriodSeconds"`
	PriorityClassName             string                            `json:"priorityClassName,omitempty"`
	NodeSelector                  map[string]string                 `json:"nodeSelector,omitempty"`
	Tolerations                   []corev1.Toleration               `json:"tolerations,omitempty"`
	Affinity                      *corev1.Affinity                  `json:"affinity,omitempty"`
	TopologySpreadConstraints     []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitzero"`
	Restart                       string                            `json:"restart,omitempty"`
	PodTemplate                   map[string]any                    `json:"podTemplate,omitempty"`
	InheritedMetadata             *fettlev1.InheritedMetadata       `json:"inheritedMetadata,omitempty"`
}

// revisionOf is the hash of what pg asks of its pods.
func revisionOf(pg *databasev1alpha1.PostgreSQL) string {
	spec := &pg.Spec
	return hashOf(restartRequests{
		Image: pg.Spec.EffectiveImage(), User: user(pg),
		ImagePullPolicy: spec.ImagePullPolicy, ImagePullSecrets: spec.ImagePullSecrets, Resources: spec.Resources,
		TerminationGracePeriodSeconds: *spec.TerminationGracePeriodSeconds,
		PriorityClassName:             spec.PriorityClassName, NodeSelector: spec.NodeSelector, Tolerations: spec.Tolerations,
		Affinity: spec.Affinity, TopologySpreadConstraints: spec.TopologySpreadConstraints,
		Restart: pg.Annotations[databasev1alpha1.AnnotationRestart], PodTemplate: podtemplate.Canonical(spec.PodTemplate),
		InheritedMetadata: pg.Inherited(),
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
