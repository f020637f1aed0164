package appconfig

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	"github.com/fettle-dev/fettle/internal/cache"
	"github.com/fettle-dev/fettle/internal/rollout"
)

// revision is one content that is or was published, as its objects have it.
type revision struct {
	content
	// hash of the content, number of the revision, and its inputs, from the annotations of the ConfigMap.
	hash   string
	number int64
	inputs string
	// name of the ConfigMap, and of the Secret if withSecret.
	name       string
	withSecret bool
	// complete is false if the Secret that belongs to it is missing.
	complete bool
	// stamp and secretStamp are rollout.PublishedAnnotation of the two.
	stamp, secretStamp string
	// edited and secretEdited are the times when other clients changed the contents of the two, see cache.ForeignEditTime.
	edited, secretEdited time.Time
}

// existing are the children that were found before they are written.
type existing struct {
	// target is the published revision in mode InPlace; nil if there is none, and in mode Versioned.
	target *revision
	// kept are the immutable copies, newest first.
	kept []revision
}

// revisionOf reads a revision from its objects. secret is nil if there is none.
func revisionOf(cm *corev1.ConfigMap, secret *corev1.Secret) revision {
	number, err := strconv.ParseInt(cm.Annotations[annotationRevision], 10, 64)
	if err != nil {
		number = 0 // not written by Fettle: older than all
	}
	r := revision{
		content: content{data: cm.Data},
		hash:    cm.Annotations[annotationHash], number: number, inputs: cm.Annotations[annotationInputs],
		name: cm.Name, withSecret: cm.Annotations[annotationSecret] != "",
		stamp:  cm.Annotations[rollout.PublishedAnnotation],
		edited: cache.ForeignEditTime(cm.ManagedFields, controllerName),
	}
	if secret != nil {
		r.secret = map[string]string{}
		addBytes(r.secret, secret.Data)
		r.secretStamp = secret.Annotations[rollout.PublishedAnnotation]
		r.secretEdited = cache.ForeignEditTime(secret.ManagedFields, controllerName)
	}
	r.complete = r.withSecret == (secret != nil)
	return r
}

// live is the published revision; nil if there is none. In mode Versioned it is the version that was published last.
func (e existing) live(mode configv1.TargetMode) *revision {
	if mode != configv1.TargetVersioned {
		return e.target
	}
	published := slices.DeleteFunc(slices.Clone(e.kept), func(r revision) bool { return r.stamp == "" })
	if len(published) == 0 {
		return nil
	}
	last := slices.MaxFunc(published, func(a, b revision) int {
		return cmp.Or(cmp.Compare(instant(a.stamp), instant(b.stamp)), cmp.Compare(a.number, b.number))
	})
	return &last
}

// instant is the time of a stamp in a form that sorts as text.
func instant(stamp string) string {
	const digits = len("2006-01-02T15:04:05Z")
	return stamp[:min(len(stamp), digits)]
}

// all are the copies and the target.
func (e existing) all() []revision {
	if e.target == nil {
		return e.kept
	}
	return append(slices.Clone(e.kept), *e.target)
}

// newest is the largest number of a revision; 0 if there is none.
func (e existing) newest() int64 {
	var n int64
	for _, r := range e.all() {
		n = max(n, r.number)
	}
	return n
}

// next is the revision for out: the newest one if it has the same content, otherwise a new one.
func (e existing) next(out rendered) revision {
	r := revision{
		content: out.content, hash: out.hash, inputs: out.inputs, number: e.newest() + 1,
		withSecret: len(out.secret) > 0, complete: true,
	}
	for _, known := range e.all() {
		if known.hash != out.hash {
			continue
		}
		if known.number == e.newest() {
			r.number = known.number
		}
		if out.inputs != "" && known.inputs != "" {
			r.inputs = known.inputs // other versions of the same contents are not worth a write
		}
	}
	return r
}

// find returns the complete copy with that number; nil if it is not in the history.
func (e existing) find(number int64) *revision {
	for i := range e.kept {
		if e.kept[i].number == number && e.kept[i].complete {
			return &e.kept[i]
		}
	}
	return nil
}

// lastGood is the revision to restore instead of the content with that hash: the one in status, otherwise the newest earlier one;
// nil if there is none.
func (e existing) lastGood(remembered int64, hash string) *revision {
	if r := e.find(remembered); r != nil && r.hash != hash {
		return r
	}
	before := e.newest() + 1
	for i := range e.kept {
		if e.kept[i].hash == hash {
			before = e.kept[i].number
		}
	}
	for i := range e.kept {
		if r := &e.kept[i]; r.number < before && r.hash != hash && r.complete {
			return r
		}
	}
	return nil
}

// copyOf returns the complete copy of a revision; nil if there is none.
func (e existing) copyOf(r *revision) *revision {
	for i := range e.kept {
		if e.kept[i].hash == r.hash && e.kept[i].complete {
			return &e.kept[i]
		}
	}
	return nil
}

// rendered from the same inputs before, if anything was; its content is what its hash says only if verified.
func (e existing) renderedFrom(inputs string) []revision {
	return slices.DeleteFunc(e.all(), func(r revision) bool { return r.inputs != inputs || !r.complete })
}

// same reports whether a and b have the same contents.
func same(a, b content) bool { return maps.Equal(a.data, b.data) && maps.Equal(a.secret, b.secret) }

// surplus are the copies beyond limit, except those in keep.
func (e existing) surplus(limit int, keep map[string]bool) []revision {
	var out []revision
	earlier := 0
	for _, r := range e.kept {
		if keep[r.name] {
			continue
		}
		if earlier++; earlier > limit {
			out = append(out, r)
		}
	}
	return out
}
