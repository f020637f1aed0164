package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

// PostgreSQLLease sets the timing of failure detection, by the Lease that the primary renews.
// +kubebuilder:validation:XValidation:rule="(self.renewDeadlineSeconds + 2) * 21 < self.leaseDurationSeconds * 19",message="lease.renewDeadlineSeconds: with the 2 s that a primary may need to stop, must be at least 10% below leaseDurationSeconds, because clocks differ: at most 7 for a duration of 10"
// +kubebuilder:validation:XValidation:rule="self.retryPeriodSeconds * 3 <= self.renewDeadlineSeconds",message="lease.retryPeriodSeconds: must be at most a third of renewDeadlineSeconds, so that one lost request does not stop the primary"
type PostgreSQLLease struct {
	// leaseDurationSeconds is how long, in seconds, the other instances wait after the last renewal before one of them becomes the primary.
	// Defaults to 10. A shorter duration detects a failure earlier.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=6
	// +kubebuilder:validation:Maximum=300
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Lease Duration",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	LeaseDurationSeconds int32 `json:"leaseDurationSeconds,omitempty"`
	// renewDeadlineSeconds is how long, in seconds, a primary that cannot renew the Lease keeps running. After that it stops PostgreSQL at
	// once, unless all other instances promise not to take over. Defaults to 7.
	// +optional
	// +kubebuilder:default=7
	// +kubebuilder:validation:Minimum=3
	// +kubebuilder:validation:Maximum=300
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Renew Deadline",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	RenewDeadlineSeconds int32 `json:"renewDeadlineSeconds,omitempty"`
	// retryPeriodSeconds is the time, in seconds, between two renewals by the primary. Defaults to 2. A shorter period costs more requests.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=60
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Retry Period",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	RetryPeriodSeconds int32 `json:"retryPeriodSeconds,omitempty"`
}

// PostgreSQLFailover limits the data loss of a failover.
type PostgreSQLFailover struct {
	// maximumLag is how much WAL, in bytes, an automatic failover may lose without synchronous replication. Defaults to "32Mi". A standby
	// that lacks more does not become the primary, and an instance that has more WAL than the primary is not rewound or recloned. Both
	// wait until the annotation fettle.dev/accept-data-loss names the instance that is to be the primary. With synchronous this field has
	// no effect: a confirmed commit is never lost.
	// +optional
	// +kubebuilder:default="32Mi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0')) && quantity(string(self)).isInteger()",message="maximumLag: must be a number of bytes above 0, such as 32Mi"
	MaximumLag resource.Quantity `json:"maximumLag,omitzero"`
}
