// Package v1 holds what all kinds of Fettle share: the types and reasons of
// conditions, and references to objects of the same namespace.
package v1

// Ready is on every kind. It is True when the object does all that its spec
// asks for, False with the reason of the trouble, and Unknown while Fettle has
// not found out yet. Conditions have positive polarity: none is bad when True.
const Ready = "Ready"

// Conditions that kstatus, and so Flux and kubectl, understand beside Ready. Both are absent or True, and at most one is there.
const (
	// Stalled is True while the object cannot become ready before a person changes something. It is absent otherwise.
	Stalled = "Stalled"
	// Reconciling is True while a change is rolled out and Ready stays True. It is absent otherwise.
	Reconciling = "Reconciling"
)

// Reasons that every kind uses.
const (
	// ReasonReconciling means that the spec was accepted and is being carried out.
	ReasonReconciling = "Reconciling"
	// ReasonPaused means that spec.paused is true: nothing is changed until it is false.
	ReasonPaused = "Paused"
	// ReasonNameConflict means that an object that Fettle did not make has the name
	// that a child needs. It is left alone; rename or remove one of the two.
	ReasonNameConflict = "NameConflict"
	// ReasonInvalid means that the API server or its admission rejected a child; the
	// message names the field or the policy. Fettle tries again, at the latest every 5 minutes.
	ReasonInvalid = "Invalid"
	// ReasonForbidden means that the API server did not allow a child: quota, a policy
	// or missing rights. It is tried again.
	ReasonForbidden = "Forbidden"
	// ReasonTooLarge means that a child is larger than the API server accepts.
	ReasonTooLarge = "TooLarge"
	// ReasonWriteFailed means that a child could not be written for another cause. It is
	// tried again.
	ReasonWriteFailed = "WriteFailed"
	// ReasonTerminating means that the object is being deleted.
	ReasonTerminating = "Terminating"
)
