package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TargetMode says how a change is published.
// +kubebuilder:validation:Enum=InPlace;Versioned
type TargetMode string

const (
	// TargetInPlace changes the ConfigMap that workloads refer to.
	TargetInPlace TargetMode = "InPlace"
	// TargetVersioned makes an immutable ConfigMap for each revision.
	TargetVersioned TargetMode = "Versioned"
)

// AppConfigTarget says what is published.
type AppConfigTarget struct {
	// name of the ConfigMap and the Secret, "<application>-config" by default. It can't be changed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=242
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="name: must be a DNS name of at most 242 characters (lower-case letters, digits, '-' and '.'): '-' and ten digits are added for each revision"
	Name string `json:"name,omitempty"`
	// mode is InPlace (by default: the ConfigMap changes) or Versioned (each revision has an immutable ConfigMap of its own).
	// +optional
	// +kubebuilder:default=InPlace
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="mode: can't be changed, since workloads refer to what is published; make a new AppConfig"
	Mode TargetMode `json:"mode,omitempty"`
	// historyLimit is how many earlier revisions are kept for a rollback, 0 to 20, 5 by default. Those that a workload still uses are kept besides.
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=20
	HistoryLimit *int32 `json:"historyLimit,omitempty"`
	// labels of what is published, besides Fettle's own.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.contains('fettle.dev/') && !k.startsWith('app.kubernetes.io/'))",message="labels: those of fettle.dev and app.kubernetes.io are set by Fettle"
	Labels map[string]string `json:"labels,omitempty"`
	// annotations of what is published.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.contains('fettle.dev/'))",message="annotations: those of fettle.dev are set by Fettle"
	Annotations map[string]string `json:"annotations,omitempty"`
}

// RolloutStrategy says what happens to the dependents when the configuration changes.
// +kubebuilder:validation:Enum=Restart;None
type RolloutStrategy string

const (
	// RolloutRestart restarts the pods of dependents, by a change of their template.
	RolloutRestart RolloutStrategy = "Restart"
	// RolloutNone leaves dependents alone.
	RolloutNone RolloutStrategy = "None"
)

// RolloutDiscovery says how dependents are found.
// +kubebuilder:validation:Enum=References;Selector;None
type RolloutDiscovery string

const (
	// DiscoveryReferences finds workloads whose pod template refers to what is published.
	DiscoveryReferences RolloutDiscovery = "References"
	// DiscoverySelector finds workloads by their labels.
	DiscoverySelector RolloutDiscovery = "Selector"
	// DiscoveryNone finds nothing; only spec.rollout.targets, and what names the AppConfig itself, are dependents.
	DiscoveryNone RolloutDiscovery = "None"
)

// AppConfigRollout says how dependents are restarted.
// +kubebuilder:validation:XValidation:rule="(has(self.discovery) && self.discovery == 'Selector') == has(self.selector)",message="selector: set it if, and only if, discovery is Selector"
type AppConfigRollout struct {
	// strategy is Restart (by default) or None, which leaves workloads alone.
	// +optional
	// +kubebuilder:default=Restart
	Strategy RolloutStrategy `json:"strategy,omitempty"`
	// discovery is References (by default: workloads whose pod template refers to what is published), Selector or None. WebApps that name the AppConfig in spec.configRefs are dependents in any case.
	// +optional
	// +kubebuilder:default=References
	Discovery RolloutDiscovery `json:"discovery,omitempty"`
	// selector of the labels of Deployments, StatefulSets and DaemonSets, where discovery is Selector.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// targets are dependents besides those that are found.
	// +optional
	// +listType=map
	// +listMapKey=kind
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	Targets []AppConfigRolloutTarget `json:"targets,omitempty"`
	// debounce is how long a change has to stand before the first dependent is restarted, "5s" by default, so that several changes cost one restart.
	// +optional
	// +kubebuilder:default="5s"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('1h')",message="debounce: must be a duration from 0s to 1h, such as 5s"
	Debounce *metav1.Duration `json:"debounce,omitempty"`
	// minInterval is the least time between two restarts of the same dependent, "30s" by default.
	// +optional
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('24h')",message="minInterval: must be a duration from 0s to 24h, such as 30s"
	MinInterval *metav1.Duration `json:"minInterval,omitempty"`
	// maxConcurrent is how many dependents may be restarting at once, 1 by default.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MaxConcurrent int32 `json:"maxConcurrent,omitempty"`
	// window bounds the time in which restarts are started; at any time by default.
	// +optional
	Window *AppConfigWindow `json:"window,omitempty"`
	// progressDeadline is how long a dependent may take to run the new state before its rollout counts as failed, "10m" by default.
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10s') && duration(self) <= duration('24h')",message="progressDeadline: must be a duration from 10s to 24h, such as 10m"
	ProgressDeadline *metav1.Duration `json:"progressDeadline,omitempty"`
	// autoRollback publishes the last good revision when the rollout of a dependent fails; false by default.
	// +optional
	AutoRollback bool `json:"autoRollback,omitempty"`
}

// AppConfigRolloutTarget names a workload of the same namespace.
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

// AppConfigWindow is a time that comes again and again.
type AppConfigWindow struct {
	// schedule is when the window opens, as in cron: minute, hour, day of the month, month, day of the week; for example "0 2 * * 1-5".
	// +required
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9*/,-]+ +[0-9*/,-]+ +[0-9*/,?LW-]+ +[0-9A-Za-z*/,-]+ +[0-9A-Za-z*/,?#-]+$')",message="schedule: must have five fields as in cron (minute, hour, day of the month, month, day of the week), such as '0 2 * * 1-5'"
	Schedule string `json:"schedule"`
	// duration is how long the window is open, for example "2h".
	// +required
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('168h')",message="duration: must be a duration from 1m to 168h, such as 2h"
	Duration metav1.Duration `json:"duration"`
	// timeZone of the schedule, for example "Europe/Berlin"; "UTC" by default.
	// +optional
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$')",message="timeZone: must be a name of the time zone database, such as Europe/Berlin"
	TimeZone string `json:"timeZone,omitempty"`
}

// AppConfigRollback goes back to an earlier revision.
type AppConfigRollback struct {
	// toRevision is the number of a revision that is kept; 0, the default, is the last good one before what is rendered.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ToRevision int64 `json:"toRevision,omitempty"`
}

// AppConfigPreview is what publishing would change. It names keys, never values.
type AppConfigPreview struct {
	// hash of what would be published.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Hash string `json:"hash,omitempty"`
	// added keys, at most 100.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=253
	Added []string `json:"added,omitempty"`
	// changed keys, at most 100.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=253
	Changed []string `json:"changed,omitempty"`
	// removed keys, at most 100.
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
	// hash of the keys that it uses, as it runs them.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Hash string `json:"hash,omitempty"`
	// state is UpToDate, Pending (the message says what it waits for), Restarting, Failed, or Paused (it waits for a person).
	// +optional
	// +kubebuilder:validation:Enum=UpToDate;Pending;Restarting;Failed;Paused
	State DependentState `json:"state,omitempty"`
	// message says why, where the state is not UpToDate.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
}
