// Package backupjob makes the Jobs of BackupRuns and Restores, and says what became of them.
package backupjob

import (
	"cmp"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/backup/job"
	"github.com/fettle-dev/fettle/internal/podsecurity"
	"github.com/fettle-dev/fettle/internal/reconciler"
)

const (
	mainContainer = "backup"
	initContainer = "install"
	component     = "backup"

	volumeBin = "bin"
	volumeTmp = "tmp"

	// user is the number of the user and group of the pod. The official images run as any number; most have a user of this one.
	user = 999
	// secretMode lets the group of the pod read.
	secretMode = 0o440

	annotationUsername = "backup.fettle.dev/username-"
	// labelAzureIdentity has the webhook of Azure's workload identity give the pod a token.
	labelAzureIdentity = "azure.workload.identity/use"
)

// Kind is one of the kinds that own a Job.
type Kind struct {
	// Name is the kind, Resource what the API server calls it.
	Name, Resource string
	// Prefix is that of the names of the children, which may not be those of a PostgreSQL's.
	Prefix string
}

// The kinds that own a Job. BackupRuns usually end with a time, and Restores have the name of what is restored.
var (
	KindBackupRun = Kind{Name: "BackupRun", Resource: "backupruns"}
	KindRestore   = Kind{Name: "Restore", Resource: "restores", Prefix: "restore-"}
)

// Pod is what a Job is made of.
type Pod struct {
	Kind   Kind
	Config job.Config
	Server Server
	// Store is the destination or the source of the backup.
	Store backupv1alpha1.Destination
	// Identity is the private key of an encrypted backup, nil if there is none.
	Identity *fettlev1.SecretKeyReference
	Spec     backupv1alpha1.RunPod
	// TimeoutSeconds bounds the Job with its retries.
	TimeoutSeconds int64
	// Retries is how often a pod that failed is replaced. With 0, not even an evicted pod is replaced.
	Retries int32
	// FettleImage is the image that the program comes from: the operator's own.
	FettleImage string
	// Temporary is the server to verify a backup in, in a container of its own; nil for other pods.
	Temporary *backupv1alpha1.TemporaryServer
}

// Name is the name of all children.
func (p *Pod) Name() string { return p.Kind.Prefix + p.Config.Object }

func (p *Pod) labels() map[string]string {
	return reconciler.Labels(p.Kind.Name, p.Config.Object, component)
}

// Secrets are the names of the Secrets that the pod cannot start without.
func (p *Pod) Secrets() []string {
	var names []string
	if ref := p.Store.CredentialsSecretRef; ref != nil {
		names = append(names, ref.Name)
	}
	for _, ref := range []*fettlev1.SecretKeyReference{p.Store.CASecretRef, p.Identity, p.Server.URI, p.Server.CA} {
		if ref != nil {
			names = append(names, ref.Name)
		}
	}
	for _, l := range p.Server.Logins {
		names = append(names, l.Secret)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Job is created once, and never changed.
func (p *Pod) Job() *batchv1.Job {
	spec := batchv1.JobSpec{
		BackoffLimit:          new(p.Retries),
		ActiveDeadlineSeconds: new(p.TimeoutSeconds),
		Template:              p.template(),
		PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
			Action: batchv1.PodFailurePolicyActionFailJob,
			OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
				ContainerName: new(mainContainer), Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{job.ExitRefused},
			},
		}}},
	}
	if p.Retries > 0 {
		spec.PodFailurePolicy.Rules = append(spec.PodFailurePolicy.Rules, batchv1.PodFailurePolicyRule{
			Action:          batchv1.PodFailurePolicyActionIgnore,
			OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
		})
	}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name(), Namespace: p.Config.Namespace, Labels: p.labels()},
		Spec:       spec,
	}
}

func (p *Pod) template() corev1.PodTemplateSpec {
	podContext, containerContext := podsecurity.Profile(appsv1.ProfileRestricted)
	podContext.WithRunAsUser(user).WithRunAsGroup(user).WithFSGroup(user).WithFSGroupChangePolicy(corev1.FSGroupChangeOnRootMismatch)
	containerContext.WithRunAsNonRoot(true)
	container := apply.Convert[corev1.SecurityContext](containerContext)
	m := p.mounts()
	labels, annotations := p.labels(), map[string]string{"kubectl.kubernetes.io/default-container": mainContainer}
	if p.Server.PostgreSQL != "" {
		labels[backupv1alpha1.LabelPostgreSQL] = p.Server.PostgreSQL
	}
	if p.Store.ServiceAccountName != "" {
		labels[labelAzureIdentity] = "true"
	}
	for i, l := range p.Server.Logins {
		if l.Username != "" {
			annotations[annotationUsername+fmt.Sprint(i)] = l.Username
		}
	}
	main := corev1.Container{
		Name: mainContainer, Image: cmp.Or(p.Spec.Image, p.Server.Image), Command: []string{"/fettle-bin/fettle", "backup"},
		Env:          []corev1.EnvVar{{Name: job.EnvConfig, Value: p.Config.Encode()}, {Name: "HOME", Value: "/tmp"}},
		Resources:    p.Spec.Resources,
		VolumeMounts: m.mounts, SecurityContext: container, TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
	spec := corev1.PodSpec{
		RestartPolicy:                corev1.RestartPolicyNever,
		ServiceAccountName:           p.serviceAccount(),
		AutomountServiceAccountToken: new(true),
		EnableServiceLinks:           new(false),
		SecurityContext:              apply.Convert[corev1.PodSecurityContext](podContext),
		InitContainers:               []corev1.Container{install(p.FettleImage, container)},
		Containers:                   []corev1.Container{main},
		Volumes:                      m.volumes,
		NodeSelector:                 p.Spec.NodeSelector,
		Tolerations:                  p.Spec.Tolerations,
	}
	if p.Temporary != nil {
		p.addTemporary(&spec, annotations, main.Image, container)
	}
	for _, ref := range p.Spec.ImagePullSecrets {
		spec.ImagePullSecrets = append(spec.ImagePullSecrets, corev1.LocalObjectReference{Name: ref.Name})
	}
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: annotations}, Spec: spec}
}

// install copies the program into the pod, so that the image of the database can be any.
func install(image string, context *corev1.SecurityContext) corev1.Container {
	return corev1.Container{
		Name: initContainer, Image: image, Command: []string{"/fettle", "install", "/fettle-bin"}, SecurityContext: context,
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("128Mi")},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: volumeBin, MountPath: "/fettle-bin"}},
	}
}
