package webapp

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	k8sappsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/rollout"
)

// revisionDigits is the length of the hash: enough to distinguish the few pod templates of one WebApp.
const revisionDigits = 16

// revision is a pod template and its hash.
type revision struct {
	hash     string
	image    string
	template *corev1ac.PodTemplateSpecApplyConfiguration
}

// revisionRecord is the data of a ControllerRevision: the pod template of a successful rollout.
type revisionRecord struct {
	Image    string                                      `json:"image"`
	Template *corev1ac.PodTemplateSpecApplyConfiguration `json:"template"`
}

func revisionOf(app *appsv1.WebApp, template *corev1ac.PodTemplateSpecApplyConfiguration) revision {
	raw, err := json.Marshal(template)
	if err != nil {
		panic(fmt.Sprintf("pod template of WebApp %s/%s has no JSON form: %v", app.Namespace, app.Name, err))
	}
	sum := sha256.Sum256(raw)
	return revision{hash: hex.EncodeToString(sum[:])[:revisionDigits], image: app.Spec.Image, template: template}
}

// ownRevision is the revision of the spec. An earlier release included a hash of the objects of spec.configRefs. That hash stays
// until another part of the pod template changes. An upgrade thus starts no pods, and does not retry a failed pod template.
func ownRevision(app *appsv1.WebApp, in inputs) revision {
	if hash := in.live[rollout.FormerHashAnnotation]; hash != "" {
		former := revisionOf(app, podTemplate(app, in).WithAnnotations(map[string]string{rollout.FormerHashAnnotation: hash}))
		if former.hash == in.live[annotationRevision] || former.hash == app.Status.FailedRevision {
			return former
		}
	}
	return revisionOf(app, podTemplate(app, in))
}

// annotated is the pod template with its hash as an annotation, which identifies the pods of each revision.
func (r revision) annotated() *corev1ac.PodTemplateSpecApplyConfiguration {
	t := apply.Convert[corev1ac.PodTemplateSpecApplyConfiguration](r.template)
	return t.WithAnnotations(map[string]string{annotationRevision: r.hash})
}

// rolledBack reports whether the last good pod template runs instead of own: status records that own's rollout failed, and neither
// the spec nor its configuration has changed since.
func rolledBack(app *appsv1.WebApp, own revision, good *revision) bool {
	return app.Spec.Rollout.AutoRollback && good != nil && good.hash != own.hash &&
		app.Status.FailedRevision == own.hash
}

// goodRevision is the pod template to keep for a rollback: the running one once it is ready, until then the previous one.
func goodRevision(app *appsv1.WebApp, in inputs, running revision) *revision {
	switch {
	case !app.Spec.Rollout.AutoRollback:
		return nil
	case in.ready == running.hash:
		return &running
	default:
		return in.good
	}
}

func revisionName(app *appsv1.WebApp, hash string) string { return app.Name + "-" + hash }

// controllerRevision records a good pod template. Its name contains the hash of the template, so it never changes.
func controllerRevision(app *appsv1.WebApp, r revision) *appsv1ac.ControllerRevisionApplyConfiguration {
	raw, err := json.Marshal(revisionRecord{Image: r.image, Template: r.template})
	if err != nil {
		panic(fmt.Sprintf("revision %s of WebApp %s/%s has no JSON form: %v", r.hash, app.Namespace, app.Name, err))
	}
	return appsv1ac.ControllerRevision(revisionName(app, r.hash), app.Namespace).
		WithLabels(labels(app)).
		WithAnnotations(map[string]string{annotationRevision: r.hash}).
		WithRevision(1).
		WithData(runtime.RawExtension{Raw: raw})
}

// lastGood is the newest recorded revision that can be read; nil if there is none.
func lastGood(records []k8sappsv1.ControllerRevision) *revision {
	newestFirst := slices.SortedFunc(slices.Values(records), func(a, b k8sappsv1.ControllerRevision) int {
		if c := b.CreationTimestamp.Compare(a.CreationTimestamp.Time); c != 0 {
			return c
		}
		return cmp.Compare(a.Name, b.Name)
	})
	for i := range newestFirst {
		var rec revisionRecord
		if err := json.Unmarshal(newestFirst[i].Data.Raw, &rec); err != nil || rec.Template == nil {
			continue // not one of ours any more; the prune removes it
		}
		return &revision{
			hash:     newestFirst[i].Annotations[annotationRevision],
			image:    rec.Image,
			template: rec.Template,
		}
	}
	return nil
}
