package v1alpha1

// RecoveryTarget is where the replay of archived WAL stops. Without a target, all of it is replayed.
type RecoveryTarget struct {
	// targetTime stops before the first commit after this time, such as "2026-03-01T12:00:00Z".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Format=date-time
	TargetTime string `json:"targetTime,omitempty"`
	// targetLSN stops after the WAL record at this position, such as "0/5000060".
	// +optional
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=17
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}$')",message="targetLSN: must be a position in the WAL such as 0/5000060"
	TargetLSN string `json:"targetLSN,omitempty"`
	// targetXID stops after the commit of this transaction, such as "1234".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+$')",message="targetXID: must be the number of a transaction"
	TargetXID string `json:"targetXID,omitempty"`
	// targetName stops at a restore point that pg_create_restore_point created.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9_. :+-]+$')",message="targetName: must be the name of a restore point: letters, digits, spaces and '_.:+-'"
	TargetName string `json:"targetName,omitempty"`
	// targetImmediate stops as soon as the base backup is consistent. Only true has an effect.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self",message="targetImmediate: must be true or unset"
	TargetImmediate bool `json:"targetImmediate,omitempty"`
	// targetTimeline is the timeline to follow, with any target or with none: a number such as 3, as the archive names it. Unset by
	// default: the newest timeline, or for a targetTime the newest one that had the data of that time.
	// +optional
	// +kubebuilder:validation:Minimum=1
	TargetTimeline int32 `json:"targetTimeline,omitempty"`
}

// HasTarget reports whether there is a target.
func (t *RecoveryTarget) HasTarget() bool { return *t != (RecoveryTarget{}) }
