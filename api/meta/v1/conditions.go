// Package v1 has the types that all kinds of Fettle share: the types and reasons of conditions, and references to objects of the same
// namespace.
package v1

// Ready is on every kind. It is True if the object does all that its spec asks for, False with the reason of the problem, and Unknown
// before Fettle has found out. A PostgreSQL is Ready while clients are served.
const Ready = "Ready"

// Conditions that kstatus, and so Flux and kubectl, evaluate in addition to Ready. Each is True or absent, and at most one is present.
const (
	// Stalled is True if the object cannot become ready until a person changes something.
	Stalled = "Stalled"
	// Reconciling is True while a change is rolled out and Ready stays True.
	Reconciling = "Reconciling"
)

// Reasons of all kinds.
const (
	// ReasonReconciling: Fettle has accepted the spec and applies it. Wait.
	ReasonReconciling = "Reconciling"
	// ReasonPaused: spec.paused is true, so Fettle changes nothing. Set spec.paused to false.
	ReasonPaused = "Paused"
	// ReasonNameConflict: an object that Fettle did not create has the name of a child object. Fettle does not change it. Rename or
	// delete one of the two objects.
	ReasonNameConflict = "NameConflict"
	// ReasonInvalid: the API server or an admission policy rejected a child object. Correct the field, or the policy, that the
	// message names. Fettle retries at least every 5 minutes.
	ReasonInvalid = "Invalid"
	// ReasonForbidden: a quota, a policy or missing permissions prevent a child object. Raise the quota, or grant the permission
	// that the message names. Fettle retries at least every 5 minutes.
	ReasonForbidden = "Forbidden"
	// ReasonTooLarge: a child object is larger than the API server accepts. Reduce the contents, or split them into several
	// objects.
	ReasonTooLarge = "TooLarge"
	// ReasonWriteFailed: a child object cannot be written for another reason. Read the message. Fettle retries at least every 5
	// minutes.
	ReasonWriteFailed = "WriteFailed"
	// ReasonTerminating: the object is being deleted. Wait.
	ReasonTerminating = "Terminating"
)
