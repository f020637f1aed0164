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
	// ReasonReconciling: the spec was accepted and is being applied.
	ReasonReconciling = "Reconciling"
	// ReasonPaused: spec.paused is true, and Fettle changes nothing. Ready keeps the status that says whether the object works.
	ReasonPaused = "Paused"
	// ReasonNameConflict: another object, not created by Fettle, has the name of a child object. Fettle does not touch it. Rename or
	// delete one of the two.
	ReasonNameConflict = "NameConflict"
	// ReasonInvalid: the API server or an admission webhook rejected a child object. The message names the field or the policy.
	// Correct the spec; Fettle retries at least every 5 minutes.
	ReasonInvalid = "Invalid"
	// ReasonForbidden: the API server did not permit a child object because of a quota, a policy or missing permissions. Fettle
	// retries at least every 5 minutes.
	ReasonForbidden = "Forbidden"
	// ReasonTooLarge: a child object is larger than the API server accepts. Make the contents smaller.
	ReasonTooLarge = "TooLarge"
	// ReasonWriteFailed: a child object could not be written for another reason, which the message has. Fettle retries at least every
	// 5 minutes.
	ReasonWriteFailed = "WriteFailed"
	// ReasonTerminating: the object is being deleted.
	ReasonTerminating = "Terminating"
)
