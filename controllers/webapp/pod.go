package webapp

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/distribution/reference"
	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/podsecurity"
	"github.com/fettle-dev/fettle/internal/podtemplate"
	"github.com/fettle-dev/fettle/internal/policy"
	"github.com/fettle-dev/fettle/internal/reconciler"
	"github.com/fettle-dev/fettle/internal/rollout"
)

// Labels and annotations of the children.
const (
	labelOwnerKind = reconciler.LabelOwnerKind
	labelOwnerName = reconciler.LabelOwnerName
	ownerKind      = "WebApp"

	// annotationRevision, on the pod template, is the hash of the template.
	annotationRevision = "fettle.dev/revision"
	// annotationReplicas, on the Deployment, is present while spec.replicas sets the number of pods, not an autoscaler.
	annotationReplicas = "fettle.dev/replicas"

	mainContainer = appsv1.MainContainer
	mainPort      = "http"
	historyLimit  = 5
)

// labels of every child. "app" is for people who select by it; Fettle does not use it.
func labels(app *appsv1.WebApp) map[string]string {
	l := reconciler.Labels(ownerKind, app.Name, "webapp")
	l["app"] = app.Name
	return l
}

// selector of the pods.
func selector(app *appsv1.WebApp) map[string]string { return reconciler.Selector(ownerKind, app.Name) }

const (
	tmpVolume = "fettle-tmp"
	tmpPath   = "/tmp"
)

// podTemplate is the pod template of the spec, without its revision. A spec.podTemplate that can't be merged is left out: the Deployment is
// not applied then, see rejectedPodTemplate.
func podTemplate(app *appsv1.WebApp, in inputs) *corev1ac.PodTemplateSpecApplyConfiguration {
	t := generatedPodTemplate(app, in)
	if !podtemplate.IsSet(app.Spec.PodTemplate) {
		return t
	}
	_, added := podsecurity.Profile(podsecurity.Effective(app, in.namespaceLabels))
	merged, err := podtemplate.Merge(t, app.Spec.PodTemplate, added)
	if err != nil {
		return t
	}
	return merged
}

// rejectedPodTemplate is the reason why spec.podTemplate can't be used; nil if it can. The webhook rejects it too, but may be off, and the
// namespace's labels may have changed since.
func rejectedPodTemplate(app *appsv1.WebApp, in inputs) error {
	violations, err := policy.CheckPodTemplate(app, in.namespaceLabels)
	if err != nil || len(violations) == 0 {
		return err
	}
	var errs field.ErrorList
	for _, v := range violations {
		errs = append(errs, v.Error)
	}
	return apierrors.NewInvalid(appsv1.GroupVersion.WithKind(ownerKind).GroupKind(), app.Name, errs)
}

func generatedPodTemplate(app *appsv1.WebApp, in inputs) *corev1ac.PodTemplateSpecApplyConfiguration {
	s := &app.Spec
	profile := podsecurity.Effective(app, in.namespaceLabels)
	podContext, containerContext := podsecurity.Contexts(app, profile)
	spec := corev1ac.PodSpec().
		WithAutomountServiceAccountToken(s.AutomountServiceAccountToken).
		WithEnableServiceLinks(false).
		WithSecurityContext(podContext).
		WithContainers(container(app, profile).WithSecurityContext(containerContext))
	for _, ref := range s.ImagePullSecrets {
		spec.WithImagePullSecrets(corev1ac.LocalObjectReference().WithName(ref.Name))
	}
	for i := range s.Volumes {
		spec.WithVolumes(volume(&s.Volumes[i]))
	}
	if needsTmp(app, profile) {
		spec.WithVolumes(corev1ac.Volume().WithName(tmpVolume).WithEmptyDir(corev1ac.EmptyDirVolumeSource()))
	}
	placement(app, spec)
	t := corev1ac.PodTemplateSpec().WithLabels(labels(app)).WithSpec(spec)
	if in := app.Inherited(); in != nil {
		t.Labels = fettlev1.Inherit(t.Labels, in.Labels)
		t.WithAnnotations(in.Annotations)
	}
	return t
}

func placement(app *appsv1.WebApp, spec *corev1ac.PodSpecApplyConfiguration) {
	s := &app.Spec
	// Always set: the API server copies it to a deprecated field, which would restore a removed name.
	spec.WithServiceAccountName(cmp.Or(s.ServiceAccountName, "default"))
	if s.PriorityClassName != "" {
		spec.WithPriorityClassName(s.PriorityClassName)
	}
	if s.TerminationGracePeriodSeconds != nil {
		spec.WithTerminationGracePeriodSeconds(*s.TerminationGracePeriodSeconds)
	}
	spec.WithNodeSelector(s.NodeSelector)
	for _, t := range s.Tolerations {
		spec.WithTolerations(apply.Convert[corev1ac.TolerationApplyConfiguration](t))
	}
	if s.Affinity != nil {
		spec.WithAffinity(apply.Convert[corev1ac.AffinityApplyConfiguration](s.Affinity))
	}
	if s.TopologySpread == nil || *s.TopologySpread {
		for _, key := range []string{corev1.LabelHostname, corev1.LabelTopologyZone} {
			spec.WithTopologySpreadConstraints(corev1ac.TopologySpreadConstraint().
				WithMaxSkew(1).
				WithTopologyKey(key).
				WithWhenUnsatisfiable(corev1.ScheduleAnyway).
				WithLabelSelector(metav1ac.LabelSelector().WithMatchLabels(selector(app))).
				WithMatchLabelKeys(k8sappsv1.DefaultDeploymentUniqueLabelKey))
		}
	}
}

func container(app *appsv1.WebApp, profile appsv1.SecurityProfile) *corev1ac.ContainerApplyConfiguration {
	s := &app.Spec
	c := corev1ac.Container().
		WithName(mainContainer).
		WithImage(s.Image).
		WithCommand(s.Command...).
		WithArgs(s.Args...).
		// Always set: otherwise the default for the first image would stay when the tag changes.
		WithImagePullPolicy(cmp.Or(s.ImagePullPolicy, pullPolicy(s.Image)))
	for _, p := range containerPorts(app) {
		c.WithPorts(corev1ac.ContainerPort().WithName(p.name).WithProtocol("TCP").WithContainerPort(p.number))
	}
	for _, e := range s.Env {
		c.WithEnv(apply.Convert[corev1ac.EnvVarApplyConfiguration](e))
	}
	for _, e := range s.EnvFrom {
		c.WithEnvFrom(apply.Convert[corev1ac.EnvFromSourceApplyConfiguration](e))
	}
	if s.Resources.Requests != nil || s.Resources.Limits != nil || s.Resources.Claims != nil {
		c.WithResources(apply.Convert[corev1ac.ResourceRequirementsApplyConfiguration](s.Resources))
	}
	for _, m := range s.VolumeMounts {
		c.WithVolumeMounts(apply.Convert[corev1ac.VolumeMountApplyConfiguration](m))
	}
	if needsTmp(app, profile) {
		c.WithVolumeMounts(corev1ac.VolumeMount().WithName(tmpVolume).WithMountPath(tmpPath))
	}
	readiness := s.Probes.Readiness
	if readiness == nil {
		readiness = &appsv1.WebAppProbe{Type: "TCP"}
	}
	c.ReadinessProbe = probe(readiness, s.Port)
	c.LivenessProbe = probe(s.Probes.Liveness, s.Port)
	c.StartupProbe = probe(s.Probes.Startup, s.Port)
	return c
}

// probe returns nil for no probe. A gRPC probe needs a port number, the others use the name of the main port. Defaults inside a
// probe's action are set explicitly: defaults that the API server sets would stay when the type of the probe changes, and a probe
// with two actions is rejected.
func probe(p *appsv1.WebAppProbe, mainPortNumber int32) *corev1ac.ProbeApplyConfiguration {
	if p == nil || p.Type == "None" {
		return nil
	}
	ac := corev1ac.Probe()
	port := intstr.FromString(mainPort)
	if p.Port != 0 {
		port = intstr.FromInt32(p.Port)
	}
	switch {
	case p.Type == "GRPC":
		ac.WithGRPC(corev1ac.GRPCAction().WithPort(cmp.Or(p.Port, mainPortNumber)).WithService(""))
	case p.Path != "":
		ac.WithHTTPGet(corev1ac.HTTPGetAction().WithPath(p.Path).WithPort(port).
			WithScheme(cmp.Or(p.Scheme, corev1.URISchemeHTTP)))
	default:
		ac.WithTCPSocket(corev1ac.TCPSocketAction().WithPort(port))
	}
	for _, f := range []struct {
		value int32
		set   func(int32) *corev1ac.ProbeApplyConfiguration
	}{
		{p.InitialDelaySeconds, ac.WithInitialDelaySeconds},
		{p.PeriodSeconds, ac.WithPeriodSeconds},
		{p.TimeoutSeconds, ac.WithTimeoutSeconds},
		{p.FailureThreshold, ac.WithFailureThreshold},
	} {
		if f.value != 0 {
			f.set(f.value)
		}
	}
	return ac
}

// needsTmp reports whether the pod needs a writable /tmp because its root filesystem is read-only.
func needsTmp(app *appsv1.WebApp, profile appsv1.SecurityProfile) bool {
	return profile == appsv1.ProfileRestricted && !slices.ContainsFunc(app.Spec.VolumeMounts,
		func(m corev1.VolumeMount) bool { return m.MountPath == tmpPath })
}

// fileMode is Kubernetes' default mode for files of ConfigMaps and Secrets.
const fileMode int32 = 0o644

// namedPort is a port of the container.
type namedPort struct {
	name   string
	number int32
}

// containerPorts are the main port and the extra ports, each number once: a container can't list a number twice.
func containerPorts(app *appsv1.WebApp) []namedPort {
	ports := []namedPort{{mainPort, app.Spec.Port}}
	for _, p := range app.Spec.Service.ExtraPorts {
		number := cmp.Or(p.TargetPort, p.Port)
		if !slices.ContainsFunc(ports, func(q namedPort) bool { return q.number == number }) {
			ports = append(ports, namedPort{p.Name, number})
		}
	}
	return ports
}

// pullPolicy is Always for the tag latest, which is the default, as in Kubernetes.
func pullPolicy(image string) corev1.PullPolicy {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return corev1.PullIfNotPresent // the kubelet rejects the image
	}
	_, digested := named.(reference.Digested)
	tagged, ok := reference.TagNameOnly(named).(reference.Tagged)
	if !digested && ok && tagged.Tag() == "latest" {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// volume sets its defaults explicitly. Defaults that the API server sets would stay when the source of the volume changes, and a
// volume with two sources is rejected.
func volume(v *appsv1.WebAppVolume) *corev1ac.VolumeApplyConfiguration {
	ac := apply.Convert[corev1ac.VolumeApplyConfiguration](v)
	switch {
	case ac.ConfigMap != nil && ac.ConfigMap.DefaultMode == nil:
		ac.ConfigMap.WithDefaultMode(fileMode)
	case ac.Secret != nil && ac.Secret.DefaultMode == nil:
		ac.Secret.WithDefaultMode(fileMode)
	case ac.Projected != nil && ac.Projected.DefaultMode == nil:
		ac.Projected.WithDefaultMode(fileMode)
	}
	return ac
}

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

// annotated is the pod template with the names of versions, and its hash as an annotation, which identifies the pods of each revision.
func (r revision) annotated(versionedNames map[string]string) *corev1ac.PodTemplateSpecApplyConfiguration {
	t := apply.Convert[corev1ac.PodTemplateSpecApplyConfiguration](withVersions(r.template, versionedNames))
	return t.WithAnnotations(map[string]string{annotationRevision: r.hash})
}

// withVersions replaces the names in a pod template by the versions that the Deployment uses.
func withVersions(t *corev1ac.PodTemplateSpecApplyConfiguration, moved map[string]string) *corev1ac.PodTemplateSpecApplyConfiguration {
	if len(moved) == 0 {
		return t
	}
	doc := *apply.Convert[map[string]any](t)
	rollout.Rename(doc, func(kind, name string) string {
		if to, ok := moved[kind+"/"+name]; ok {
			return to
		}
		return name
	})
	return apply.Convert[corev1ac.PodTemplateSpecApplyConfiguration](doc)
}

// rolledBack reports whether the last good pod template runs instead of own: status records that own's rollout failed, and neither
// the spec nor its configuration has changed since.
func rolledBack(app *appsv1.WebApp, own revision, good *revision) bool {
	return app.Spec.Rollout.AutoRollback && good != nil && good.hash != own.hash &&
		app.Status.FailedRevision == own.hash
}

// recordedRevision is the pod template to keep for a rollback, none without autoRollback: the running one once it is ready, until then the
// previous one. The name contains the hash of the template, so it never changes.
func recordedRevision(app *appsv1.WebApp, in inputs, running revision) []runtime.ApplyConfiguration {
	r := in.good
	if in.ready == running.hash {
		r = &running
	}
	if r == nil || !app.Spec.Rollout.AutoRollback {
		return nil
	}
	raw, err := json.Marshal(revisionRecord{Image: r.image, Template: r.template})
	if err != nil {
		panic(fmt.Sprintf("revision %s of WebApp %s/%s has no JSON form: %v", r.hash, app.Namespace, app.Name, err))
	}
	return []runtime.ApplyConfiguration{appsv1ac.ControllerRevision(app.Name+"-"+r.hash, app.Namespace).
		WithLabels(labels(app)).
		WithAnnotations(map[string]string{annotationRevision: r.hash}).
		WithRevision(1).
		WithData(runtime.RawExtension{Raw: raw})}
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
