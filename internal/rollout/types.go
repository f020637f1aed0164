package rollout

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// ConfigPrefix is that of the annotations for AppConfigs.
	ConfigPrefix = "config.fettle.dev"
	// VotingPrefix is that of the annotations for VoteConfigs.
	VotingPrefix = "voting.fettle.dev"
	// ConfigMapPrefix is that for ConfigMaps that Fettle does not publish.
	ConfigMapPrefix = "configmap.fettle.dev"
	// SecretPrefix is that for Secrets that Fettle does not publish.
	SecretPrefix = "secret.fettle.dev"
	// UsesAnnotation on a workload names AppConfigs, separated by commas, of which it uses all keys, whatever Policy.Discovery is.
	// "VoteConfig/NAME" names a VoteConfig.
	UsesAnnotation = "config.fettle.dev/uses"
	// CreatedWithAnnotation on a workload has the versions that plain ConfigMaps and Secrets had just before it was created, as
	// KIND/NAME=VERSION, separated by commas: what its first pods run is known before it is noted.
	CreatedWithAnnotation = "fettle.dev/created-with"
	// FormerHashAnnotation is on pod templates that an earlier release restarted at once when contents changed.
	FormerHashAnnotation = "fettle.dev/config-hash"
	// PublishedAnnotation on a ConfigMap or Secret says since when its contents are published, see [Stamp].
	PublishedAnnotation = "config.fettle.dev/published"
)

// Kinds of objects that are published.
const (
	ConfigMap = "ConfigMap"
	Secret    = "Secret"
)

// ownerKinds has the kind of the owners with each prefix.
var ownerKinds = map[string]string{ConfigPrefix: "AppConfig", VotingPrefix: "VoteConfig", ConfigMapPrefix: ConfigMap, SecretPrefix: Secret}

// Kinds of workloads.
const (
	Deployment  = "Deployment"
	StatefulSet = "StatefulSet"
	DaemonSet   = "DaemonSet"
)

// Owner is the AppConfig or VoteConfig whose configuration is rolled out, or a ConfigMap or Secret that Fettle does not publish.
type Owner struct {
	// Prefix is ConfigPrefix, VotingPrefix, ConfigMapPrefix or SecretPrefix.
	Prefix    string
	Namespace string
	Name      string
}

// Object is a ConfigMap or Secret that an owner publishes, or may publish.
type Object struct {
	// Kind is ConfigMap or Secret.
	Kind string
	// Target is the name that users give to a reference.
	Target string
	// Versioned publishes each content under a name of its own, <target>-<10 hex digits>.
	Versioned bool
	// Name of the object that holds the current contents: Target, or the current version.
	Name string
	// Versions are the names of all objects of this owner and target that exist, in either mode, Name included if it does.
	// It may be nil unless there are, or were, versions.
	Versions []string
	// Exists is false where nothing is published under Name; Data and Stamp are then empty.
	Exists bool
	// Data are the contents, of the live object. Of one that Fettle does not publish they may be digests of the values.
	Data map[string][]byte
	// Version of an object that Fettle does not publish is its UID and resourceVersion; "" otherwise. Notes hold it, see [Engine.Known].
	Version string
	// PublishedAt is the live object's PublishedAnnotation, or the time since when its contents are known to be as they are.
	PublishedAt string
	// ForeignEdit is when somebody else last changed the contents, see [Edited]; zero if that is not known.
	ForeignEdit time.Time
}

// Discovery says how dependants are found, besides Policy.Targets and UsesAnnotation.
type Discovery string

const (
	// References finds the workloads whose pod template refers to an object.
	References Discovery = "References"
	// Selector finds the workloads whose own labels match Policy.Selector.
	Selector Discovery = "Selector"
	// None finds none.
	None Discovery = "None"
)

// Target names a workload in the owner's namespace.
type Target struct {
	// Kind is Deployment, StatefulSet or DaemonSet.
	Kind string
	Name string
}

// Policy says which workloads are restarted, and when. The zero value of a field means what is written beside it.
type Policy struct {
	// Disabled is strategy None: nothing is written to any workload.
	Disabled bool
	// Discovery is References if empty.
	Discovery Discovery
	// Selector is for Discovery Selector; nil selects nothing.
	Selector labels.Selector
	// Targets are dependants whatever their pod template refers to. One that refers to nothing uses all keys.
	Targets []Target
	// IgnoreMounts leaves aside what is only mounted: a workload that uses nothing else is no dependant, unless it is one of
	// Targets.
	IgnoreMounts bool
	// Debounce is how long nothing must have changed before restarts begin; 0: not at all.
	Debounce time.Duration
	// MinInterval lies between two restarts of the same workload; 0: nothing does.
	MinInterval time.Duration
	// MaxConcurrent is how many restarts may be under way; 1 if 0.
	MaxConcurrent int
	// Window, if any, is when restarts may start.
	Window *Window
	// ProgressDeadline is how long the next pod of a StatefulSet or DaemonSet may take; 10 minutes if 0. Deployments have
	// their own deadline.
	ProgressDeadline time.Duration
}

// Report is what one pass found and did.
type Report struct {
	// Dependents are all of them, by kind and name. Status holds MaxDependents of them, see [Report.Bounded].
	Dependents []Dependent
	// Condition has Status, Reason and Message of the condition RolledOut. The caller adds Type and ObservedGeneration.
	Condition metav1.Condition
	// RequeueAfter is when to come back at the latest, though nothing that is watched has changed; 0: never.
	RequeueAfter time.Duration
	// Restarted counts the restarts that this pass wrote. Their time belongs into lastRolloutTime.
	Restarted int
	// LastRestart is when a dependant was last restarted for this owner, as their annotations have it; zero if never.
	LastRestart time.Time
	// Event is the text of an event with reason EventRestarted, in the first pass of a wave of restarts; "" otherwise.
	Event string
}

// EventRestarted is the reason of the event that announces a wave of restarts.
const EventRestarted = "Restarted"

// MaxDependents is how many dependants a status lists.
const MaxDependents = 100

// State of a dependant.
type State string

const (
	// UpToDate runs what is published.
	UpToDate State = "UpToDate"
	// Pending will be restarted; the message says what it waits for.
	Pending State = "Pending"
	// Restarting was restarted, and is not complete yet.
	Restarting State = "Restarting"
	// Failed was restarted, and made no progress for too long.
	Failed State = "Failed"
	// Paused was told to restart, and waits for a person: it is paused, or has the strategy OnDelete.
	Paused State = "Paused"
)

// Dependent is a workload that uses the configuration, as status reports it.
type Dependent struct {
	Kind string
	Name string
	// Hash of what its pods run, shortened; "" while that is not known.
	Hash  string
	State State
	// Message says what it waits for or why it failed; "" if there is nothing to say.
	Message string
}

// Reasons of the condition RolledOut.
const (
	// ReasonRolledOut (True) means that all dependants run what is published.
	ReasonRolledOut = "RolledOut"
	// ReasonNoDependents (True) means that no workload uses the configuration.
	ReasonNoDependents = "NoDependents"
	// ReasonRestartsDisabled (True) means that the strategy is None.
	ReasonRestartsDisabled = "RestartsDisabled"
	// ReasonRollingOut (False) means that dependants are being restarted.
	ReasonRollingOut = "RollingOut"
	// ReasonDebouncing (False) means that restarts begin when nothing has changed for a while.
	ReasonDebouncing = "Debouncing"
	// ReasonWaitingForWindow (False) means that restarts begin in the next window.
	ReasonWaitingForWindow = "WaitingForWindow"
	// ReasonKeyMissing (False) means that dependants need a key that is not published: their pods could not start.
	ReasonKeyMissing = "KeyMissing"
	// ReasonManualRestart (False) means that dependants wait for a person: they are paused or have the strategy OnDelete.
	ReasonManualRestart = "ManualRestart"
	// ReasonRolloutFailed (False) means that a restart failed. No other starts.
	ReasonRolloutFailed = "RolloutFailed"
)

// Workload is what counts of a Deployment, StatefulSet or DaemonSet. It must not be changed.
type Workload struct {
	Kind            string
	Namespace       string
	Name            string
	UID             types.UID
	ResourceVersion string
	// Labels are the workload's own, not those of its pods.
	Labels map[string]string
	// References are those of the pod template to ConfigMaps and Secrets, without duplicates, in order.
	References []Reference
	// uses are the owners of UsesAnnotation.
	uses []string
	// Images of its containers, each once; empty for a workload that refers to nothing.
	Images []string
	// Progress of its rollout.
	Progress Progress

	deleting bool
	// created, and changed: when somebody but this package last changed the template, at the latest.
	created, changed time.Time
	// records and templates are the annotations with Fettle's prefixes, of the workload and of its pod template.
	records, templates map[string]string
}

// Reference of a pod template to a ConfigMap or Secret, or to a key of it.
type Reference struct {
	Kind string
	Name string
	// Key is "" for all keys.
	Key string
	// Optional references may lead nowhere.
	Optional bool
	// Mounted is true where all that refers are volumes whose files the kubelet refreshes.
	Mounted bool
}
