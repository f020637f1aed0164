package rollout

import "time"

// Phase of a rollout.
type Phase string

const (
	// Complete means that all pods are of the current template, and available.
	Complete Phase = "Complete"
	// InProgress means that pods are being replaced.
	InProgress Phase = "InProgress"
	// Stuck means that there was no progress for too long.
	Stuck Phase = "Stuck"
	// Manual means that pods of the current template come only when a person acts.
	Manual Phase = "Manual"
	// Empty means that there are to be no pods.
	Empty Phase = "Empty"
)

// Progress of the rollout of a workload's current template.
type Progress struct {
	Phase Phase
	// Message says more of InProgress, Stuck and Manual.
	Message string
	// since is when the workload's controller last reported anything; zero where that is not needed.
	since time.Time
	// pods is how many there are to be.
	pods int32
}
