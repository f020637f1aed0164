package webapp

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/rollout"
)

// templateVersions render the revision of the spec as the releases did, the newest first. The revision of a Deployment records its version,
// because each version gives another hash. A change of the pod template or of its hash for all WebApps is a new version in front, beside
// the former ones: see ownRevision.
var templateVersions = []func(*appsv1.WebApp, inputs) revision{canonicalRevision, orderedRevision, contentRevision}

// ownRevision is the revision of the spec. A Deployment that a former version rendered keeps its pod template until the spec asks for
// another one. An upgrade thus starts no pods, and does not retry a failed pod template.
func ownRevision(app *appsv1.WebApp, in inputs) revision {
	newest := templateVersions[0](app, in)
	live := in.live[annotationRevision]
	if live == newest.hash || live == "" && app.Status.FailedRevision == "" {
		return newest
	}
	for _, version := range templateVersions {
		if r := version(app, in); r.hash == live || r.hash == app.Status.FailedRevision {
			return r
		}
	}
	return newest
}

// canonicalRevision has the hash of the sorted JSON. The order of fields in Go types, which a new release of Kubernetes can change, does
// not matter.
func canonicalRevision(app *appsv1.WebApp, in inputs) revision {
	t := podTemplate(app, in)
	return revisionOf(app, t, apply.Convert[map[string]any](t))
}

// orderedRevision is the first version: its hash depends on the order of fields in Go types.
func orderedRevision(app *appsv1.WebApp, in inputs) revision {
	t := podTemplate(app, in)
	return revisionOf(app, t, t)
}

// contentRevision has a hash of the objects of spec.configRefs in the pod template, as a release before the first version did.
func contentRevision(app *appsv1.WebApp, in inputs) revision {
	t := podTemplate(app, in).WithAnnotations(map[string]string{rollout.FormerHashAnnotation: in.live[rollout.FormerHashAnnotation]})
	return revisionOf(app, t, t)
}

// revisionOf is the revision of a pod template with the hash of the JSON of hashed.
func revisionOf(app *appsv1.WebApp, template *corev1ac.PodTemplateSpecApplyConfiguration, hashed any) revision {
	raw, err := json.Marshal(hashed)
	if err != nil {
		panic(fmt.Sprintf("pod template of WebApp %s/%s has no JSON form: %v", app.Namespace, app.Name, err))
	}
	sum := sha256.Sum256(raw)
	return revision{hash: hex.EncodeToString(sum[:])[:revisionDigits], image: app.Spec.Image, template: template}
}
