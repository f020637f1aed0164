package rollout

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

const (
	// ConfigPrefix is the prefix of the annotations for AppConfigs.
	ConfigPrefix = "config.fettle.dev"
	// VotingPrefix is the prefix of the annotations for VoteConfigs.
	VotingPrefix = "voting.fettle.dev"
	// ConfigMapPrefix is the prefix for ConfigMaps that Fettle does not publish.
	ConfigMapPrefix = "configmap.fettle.dev"
	// SecretPrefix is the prefix for Secrets that Fettle does not publish.
	SecretPrefix = "secret.fettle.dev"
	// UsesAnnotation on a workload names AppConfigs, separated by commas. The workload uses all keys of each, whatever Policy.Discovery is.
	// "VoteConfig/NAME" names a VoteConfig.
	UsesAnnotation = "config.fettle.dev/uses"
	// CreatedWithAnnotation on a workload has the versions of plain ConfigMaps and Secrets just before it was created, as
	// KIND/NAME=VERSION, separated by commas. It names the contents that the first pods run until a record is written.
	CreatedWithAnnotation = "fettle.dev/created-with"
	// FormerHashAnnotation is on pod templates that an earlier release restarted immediately when contents changed.
	FormerHashAnnotation = "fettle.dev/config-hash"
	// PublishedAnnotation on a ConfigMap or Secret is the time since when its contents are published, see [PublishedAt].
	PublishedAnnotation = "config.fettle.dev/published"
)

// Kinds of published objects.
const (
	ConfigMap = "ConfigMap"
	Secret    = "Secret"
)

// ownerKinds maps a prefix to the kind of its owners.
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
	// Target is the name that users write into a reference.
	Target string
	// Versioned publishes each content under its own name, <target>-<10 hex digits>.
	Versioned bool
	// Name of the object that holds the current contents: Target, or the current version.
	Name string
	// Versions are the names of all existing objects of this owner and target, in either mode, including Name if it exists. It may be nil
	// if there are and were no versions.
	Versions []string
	// Exists is false if no object of that Name is published; Data and PublishedAt are then empty.
	Exists bool
	// Data are the contents of the live object. For an object that Fettle does not publish, the values may be digests.
	Data map[string][]byte
	// Version of an object that Fettle does not publish is its UID and resourceVersion; "" otherwise. Records hold it, see
	// [Engine.AllRunning].
	Version string
	// PublishedAt is the live object's PublishedAnnotation, or the time since when its contents are known to be unchanged.
	PublishedAt string
	// ForeignEdit is when another client last changed the contents, as far as managedFields tell; zero if unknown.
	ForeignEdit time.Time
}

// Discovery is how dependants are found, besides Policy.Targets and UsesAnnotation.
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

// Policy defines which workloads are restarted, and when. Each field documents its zero value.
type Policy struct {
	// Disabled is strategy None: the engine writes to no workload.
	Disabled bool
	// Discovery is References if empty.
	Discovery Discovery
	// Selector is for Discovery Selector; nil selects nothing.
	Selector labels.Selector
	// Targets are dependants whatever their pod template refers to. A target without references uses all keys.
	Targets []Target
	// IgnoreMounts ignores references by refreshed volumes. A workload with no other reference is no dependant, unless it is one of
	// Targets.
	IgnoreMounts bool
	// Debounce is how long the contents must not change before restarts begin; 0 means no delay.
	Debounce time.Duration
	// MinInterval is the minimum time between two restarts of one workload; 0 means no limit.
	MinInterval time.Duration
	// MaxConcurrent is how many restarts may be in progress; 1 if 0.
	MaxConcurrent int
	// Window is when restarts may start; nil means always.
	Window *Window
	// ProgressDeadline is how long the next pod of a StatefulSet or DaemonSet may take; 10 minutes if 0. Deployments have their own
	// deadline.
	ProgressDeadline time.Duration
}

// Report is the result of one reconcile.
type Report struct {
	// Dependents are all dependants, by kind and name. A status holds maxDependents of them, see [Report.Bounded].
	Dependents []Dependent
	// Condition has Status, Reason and Message of the condition RolledOut of an AppConfig or a VoteConfig. The caller adds Type and ObservedGeneration.
	Condition metav1.Condition
	// RequeueAfter is the time until the next reconcile if no watched object changes; 0 means never.
	RequeueAfter time.Duration
	// Restarted counts the restarts that this reconcile wrote. Their time is the new lastRolloutTime.
	Restarted int
	// LastRestart is when a dependant was last restarted for this owner, according to annotations; zero if never.
	LastRestart time.Time
	// Event is the text of an event with reason Restarted, in the first reconcile of a wave of restarts; "" otherwise.
	Event string
}

// maxDependents is how many dependants a status lists.
const maxDependents = 100

// State of a dependant.
type State string

const (
	// UpToDate runs the published contents.
	UpToDate State = "UpToDate"
	// Pending will be restarted; the message names what it waits for.
	Pending State = "Pending"
	// Restarting was restarted and is not complete yet.
	Restarting State = "Restarting"
	// Failed was restarted and made no progress before its deadline.
	Failed State = "Failed"
	// Paused has a new template and waits for a person: the workload is paused, or has the strategy OnDelete.
	Paused State = "Paused"
)

// Dependent is a workload that uses the configuration, as a status reports it.
type Dependent struct {
	Kind string
	Name string
	// Hash of the contents that its pods run, shortened; "" if unknown.
	Hash  string
	State State
	// Message is what it waits for or why it failed; "" if neither applies.
	Message string
}
