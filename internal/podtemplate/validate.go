package podtemplate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/json"
)

// Rules say which parts of the generated pod template an overlay may not set.
type Rules struct {
	// Main is the name of the container that runs the application or the database.
	Main string
	// Containers are the other generated containers. An overlay may not set them.
	Containers []string
	// Pod and Container return what to do instead of setting a field of the pod spec, or of the main container; "" if it may be set.
	Pod, Container func(field string) string
	// Env, MountPaths, Ports and Volumes are items that the pod template has already, and the field that sets them, if there is one.
	Env, MountPaths, Volumes map[string]string
	Ports                    map[int32]string
	// PrivateVolumes keeps the containers of the overlay from mounting Volumes.
	PrivateVolumes bool
}

// reservedVolumes is the prefix of volumes that Fettle adds.
const reservedVolumes = "fettle-"

// Validate returns all reasons why an overlay can't be used. path is that of the overlay.
func Validate(path *field.Path, overlay *runtime.RawExtension, rules Rules) field.ErrorList {
	if !IsSet(overlay) {
		return nil
	}
	var pod corev1.PodTemplateSpec
	strict, err := json.UnmarshalStrict(overlay.Raw, &pod)
	if err != nil {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, fmt.Sprintf("is no pod template: %v", err))}
	}
	var errs field.ErrorList
	for _, err := range strict {
		errs = append(errs, StrictError(path, err, "pod templates have no such field, or it is there twice; check its spelling and place"))
	}
	doc, err := decode(overlay)
	if err != nil {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, err.Error())}
	}
	metadata, _ := doc["metadata"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		if name != "labels" && name != "annotations" {
			errs = append(errs, field.Forbidden(path.Child("metadata", name), "a pod template has only labels and annotations: remove it"))
		}
	}
	errs = append(errs, validateMetadata(path.Child("metadata"), pod.Labels, pod.Annotations)...)
	spec, _ := doc["spec"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(spec)) {
		if instead := rules.Pod(name); instead != "" {
			errs = append(errs, field.Forbidden(path.Child("spec", name), instead))
		}
	}
	errs = append(errs, rules.containers(path.Child("spec"), spec, &pod.Spec)...)
	for i := range pod.Spec.Volumes {
		errs = append(errs, taken(path.Child("spec", "volumes").Index(i).Child("name"), pod.Spec.Volumes[i].Name, rules.Volumes)...)
		if strings.HasPrefix(pod.Spec.Volumes[i].Name, reservedVolumes) {
			errs = append(errs, field.Forbidden(path.Child("spec", "volumes").Index(i).Child("name"), "names that start with \"fettle-\" are reserved: choose another name"))
		}
	}
	if len(errs) == 0 { // merged with itself, since this needs the key of each list item
		if _, err := strategicpatch.StrategicMergeMapPatch(runtime.DeepCopyJSON(doc), doc, corev1.PodTemplateSpec{}); err != nil {
			errs = append(errs, field.Invalid(path, field.OmitValueType{}, fmt.Sprintf("each list item needs its key, such as name: %v", err)))
		}
	}
	return errs
}

// StrictError names a field that strict decoding found to be unknown or repeated by its path. advice says what to do.
func StrictError(path *field.Path, err error, advice string) *field.Error {
	at, detail := path, err.Error()
	if found, ok := errors.AsType[json.FieldError](err); ok {
		detail, _, _ = strings.Cut(detail, " \"")
		at = path.Child(found.FieldPath())
	}
	return field.Forbidden(at, detail+": "+advice)
}

func (r Rules) containers(path *field.Path, spec map[string]any, pod *corev1.PodSpec) (errs field.ErrorList) {
	for _, list := range []struct {
		name       string
		containers []corev1.Container
	}{{"initContainers", pod.InitContainers}, {"containers", pod.Containers}} {
		for i := range list.containers {
			c, at := &list.containers[i], path.Child(list.name).Index(i)
			switch {
			case c.Name == "":
				errs = append(errs, field.Required(at.Child("name"), "name the container; "+r.Main+" is the main one"))
			case slices.Contains(r.Containers, c.Name), c.Name == r.Main && list.name == "initContainers":
				errs = append(errs, field.Forbidden(at.Child("name"), fmt.Sprintf("container %q is Fettle's: choose another name", c.Name)))
			case c.Name == r.Main:
				errs = append(errs, r.mainContainer(at, items(spec, list.name)[i], c)...)
			case c.Image == "":
				errs = append(errs, field.Required(at.Child("image"), "an added container needs an image; "+r.Main+" is the name of the main container"))
			}
			for j, m := range c.VolumeMounts {
				if _, ok := r.Volumes[m.Name]; ok && r.PrivateVolumes {
					errs = append(errs, field.Forbidden(at.Child("volumeMounts").Index(j).Child("name"), fmt.Sprintf("volume %q is Fettle's: mount a volume of podTemplate", m.Name)))
				}
			}
			if s := c.SecurityContext; s != nil && s.Privileged != nil && *s.Privileged {
				errs = append(errs, field.Forbidden(at.Child("securityContext", "privileged"), "containers are never privileged: remove it"))
			}
		}
	}
	return errs
}

func (r Rules) mainContainer(path *field.Path, doc map[string]any, c *corev1.Container) (errs field.ErrorList) {
	for _, name := range slices.Sorted(maps.Keys(doc)) {
		if instead := r.Container(name); instead != "" {
			errs = append(errs, field.Forbidden(path.Child(name), instead))
		}
	}
	for i, e := range c.Env {
		errs = append(errs, taken(path.Child("env").Index(i).Child("name"), e.Name, r.Env)...)
	}
	for i, p := range c.Ports {
		errs = append(errs, taken(path.Child("ports").Index(i).Child("containerPort"), p.ContainerPort, r.Ports)...)
	}
	for i, m := range c.VolumeMounts {
		errs = append(errs, taken(path.Child("volumeMounts").Index(i).Child("mountPath"), m.MountPath, r.MountPaths)...)
	}
	return errs
}

// taken is an error for an item that the pod template has already.
func taken[T comparable](path *field.Path, value T, by map[T]string) field.ErrorList {
	setBy, ok := by[value]
	switch {
	case !ok:
		return nil
	case setBy == "":
		return field.ErrorList{field.Invalid(path, value, "is used by Fettle: choose another one")}
	default:
		return field.ErrorList{field.Invalid(path, value, "is set by "+setBy+": change it there")}
	}
}

// generatedLabels are the labels that Fettle sets. app.kubernetes.io/part-of and version are not among them.
var generatedLabels = []string{
	"app", "app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component", "app.kubernetes.io/managed-by",
}

// validateMetadata returns all reasons why labels and annotations can't be added to pods. path is that of their parent.
func validateMetadata(path *field.Path, labels, annotations map[string]string) field.ErrorList {
	errs := metav1validation.ValidateLabels(labels, path.Child("labels"))
	errs = append(errs, apivalidation.ValidateAnnotations(annotations, path.Child("annotations"))...)
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if slices.Contains(generatedLabels, key) || isFettles(key) {
			errs = append(errs, field.Forbidden(path.Child("labels").Key(key), "Fettle sets this label: choose another one"))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if isFettles(key) {
			errs = append(errs, field.Forbidden(path.Child("annotations").Key(key), "annotations of fettle.dev are reserved: choose another one"))
		}
	}
	return errs
}

// isFettles reports whether the prefix of a label or annotation is fettle.dev or below it.
func isFettles(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	return ok && (domain == "fettle.dev" || strings.HasSuffix(domain, ".fettle.dev"))
}
