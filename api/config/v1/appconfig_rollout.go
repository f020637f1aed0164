package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TargetMode says how a change is published.
// +kubebuilder:validation:Enum=InPlace;Versioned
type TargetMode string

const (
	// TargetInPlace updates the ConfigMap to which workloads refer.
	TargetInPlace TargetMode = "InPlace"
	// TargetVersioned creates an immutable ConfigMap for each revision.
	TargetVersioned TargetMode = "Versioned"
)

// AppConfigTarget is the ConfigMap and the Secret to publish.
type AppConfigTarget struct {
	// name of the ConfigMap and the Secret. Defaults to "<application>-config". Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=242
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="name: must be a DNS name of at most 242 characters (lower-case letters, digits, '-' and '.'): '-' and ten digits are added for each revision"
	Name string `json:"name,omitempty"`
	// mode is InPlace (the ConfigMap is updated) or Versioned (each revision has its own immutable ConfigMap). Defaults to InPlace.
	// +optional
	// +kubebuilder:default=InPlace
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="mode: can't be changed, since workloads refer to what is published; make a new AppConfig"
	Mode TargetMode `json:"mode,omitempty"`
	// historyLimit is the number of earlier revisions to keep for a rollback, 0 to 20. Revisions in use are kept in addition. Defaults
	// to 5.
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=20
	HistoryLimit *int32 `json:"historyLimit,omitempty"`
	// labels of the published objects, in addition to those of Fettle.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.contains('fettle.dev/') && !k.startsWith('app.kubernetes.io/'))",message="labels: those of fettle.dev and app.kubernetes.io are set by Fettle"
	Labels map[string]string `json:"labels,omitempty"`
	// annotations of the published objects.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.contains('fettle.dev/'))",message="annotations: those of fettle.dev are set by Fettle"
	Annotations map[string]string `json:"annotations,omitempty"`
}

// RolloutStrategy says whether dependents are restarted when the configuration changes.
// +kubebuilder:validation:Enum=Restart;None
type RolloutStrategy string

const (
	// RolloutRestart restarts the pods of dependents by a change of their pod template.
	RolloutRestart RolloutStrategy = "Restart"
	// RolloutNone restarts nothing.
	RolloutNone RolloutStrategy = "None"
)

// RolloutDiscovery says how dependents are found.
// +kubebuilder:validation:Enum=References;Selector;None
type RolloutDiscovery string

const (
	// DiscoveryReferences finds workloads whose pod template refers to the published objects.
	DiscoveryReferences RolloutDiscovery = "References"
	// DiscoverySelector finds workloads by their labels.
	DiscoverySelector RolloutDiscovery = "Selector"
	// DiscoveryNone finds nothing. The dependents are spec.rollout.targets and the WebApps that refer to the AppConfig.
	DiscoveryNone RolloutDiscovery = "None"
)

// AppConfigRollout says how dependents are restarted.
// +kubebuilder:validation:XValidation:rule="(has(self.discovery) && self.discovery == 'Selector') == has(self.selector)",message="selector: set it if, and only if, discovery is Selector"
type AppConfigRollout struct {
	// strategy is Restart or None. None restarts nothing. Defaults to Restart.
	// +optional
	// +kubebuilder:default=Restart
	Strategy RolloutStrategy `json:"strategy,omitempty"`
	// discovery is References (workloads whose pod template refers to the published objects), Selector or None. WebApps that list the
	// AppConfig in spec.configRefs are always dependents. Defaults to References.
	// +optional
	// +kubebuilder:default=References
	Discovery RolloutDiscovery `json:"discovery,omitempty"`
	// selector selects Deployments, StatefulSets and DaemonSets by their labels. Required if discovery is Selector.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// targets are dependents in addition to the discovered ones.
	// +optional
	// +listType=map
	// +listMapKey=kind
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	Targets []AppConfigRolloutTarget `json:"targets,omitempty"`
	// debounce is the time without a further change after which the first dependent is restarted. Several changes within it cost one
	// restart. Defaults to "5s".
	// +optional
	// +kubebuilder:default="5s"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('1h')",message="debounce: must be a duration from 0s to 1h, such as 5s"
	Debounce *metav1.Duration `json:"debounce,omitempty"`
	// minInterval is the shortest time between two restarts of the same dependent. Defaults to "30s".
	// +optional
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('24h')",message="minInterval: must be a duration from 0s to 24h, such as 30s"
	MinInterval *metav1.Duration `json:"minInterval,omitempty"`
	// maxConcurrent is the number of dependents that may restart at the same time. Defaults to 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MaxConcurrent int32 `json:"maxConcurrent,omitempty"`
	// window limits the time in which restarts begin. By default they begin at any time.
	// +optional
	Window *AppConfigWindow `json:"window,omitempty"`
	// progressDeadline is the time within which a restarted dependent must become ready. Otherwise its rollout fails. Defaults to
	// "10m".
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10s') && duration(self) <= duration('24h')",message="progressDeadline: must be a duration from 10s to 24h, such as 10m"
	ProgressDeadline *metav1.Duration `json:"progressDeadline,omitempty"`
	// autoRollback publishes the last good revision when the rollout of a dependent fails. Defaults to false.
	// +optional
	AutoRollback bool `json:"autoRollback,omitempty"`
}

// AppConfigRolloutTarget refers to a workload of the same namespace.
type AppConfigRolloutTarget struct {
	// kind is Deployment, StatefulSet or DaemonSet.
	// +required
	// +kubebuilder:validation:Enum=Deployment;StatefulSet;DaemonSet
	Kind string `json:"kind"`
	// name of the workload.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// AppConfigWindow is a recurring time window.
type AppConfigWindow struct {
	// schedule is the start of the window as a cron expression (minute, hour, day of month, month, day of week), for example "0 2 * *
	// 1-5".
	// +required
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9*/,-]+ +[0-9*/,-]+ +[0-9*/,?LW-]+ +[0-9A-Za-z*/,-]+ +[0-9A-Za-z*/,?#-]+$')",message="schedule: must have five fields as in cron (minute, hour, day of the month, month, day of the week), such as '0 2 * * 1-5'"
	Schedule string `json:"schedule"`
	// duration is the length of the window, for example "2h".
	// +required
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('168h')",message="duration: must be a duration from 1m to 168h, such as 2h"
	Duration metav1.Duration `json:"duration"`
	// timeZone of the schedule, for example "Europe/Berlin". Defaults to "UTC".
	// +optional
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$')",message="timeZone: must be a name of the time zone database, such as Europe/Berlin"
	TimeZone string `json:"timeZone,omitempty"`
}

// AppConfigRollback selects an earlier revision.
type AppConfigRollback struct {
	// toRevision is the number of a revision in the history. Defaults to 0: the last good revision before the rendered contents.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ToRevision int64 `json:"toRevision,omitempty"`
}

// AppConfigPreview lists the changes that publishing would make. It contains names of keys, never values.
type AppConfigPreview struct {
	// hash of the contents that would be published.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Hash string `json:"hash,omitempty"`
	// added lists the new keys, at most 100.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=253
	Added []string `json:"added,omitempty"`
	// changed lists the keys with other values, at most 100.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=253
	Changed []string `json:"changed,omitempty"`
	// removed lists the keys that would be removed, at most 100.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=253
	Removed []string `json:"removed,omitempty"`
}

// AppConfigDependent is a workload that uses the configuration.
type AppConfigDependent struct {
	// kind of the workload: Deployment, StatefulSet or DaemonSet.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// name of the workload.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// hash of the keys that the workload uses, in the version that it runs.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Hash string `json:"hash,omitempty"`
	// state is UpToDate, Pending (the message says why it waits), Restarting, Failed, or Paused (a person must restart it).
	// +optional
	// +kubebuilder:validation:Enum=UpToDate;Pending;Restarting;Failed;Paused
	State DependentState `json:"state,omitempty"`
	// message is the reason for a state other than UpToDate.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
}
