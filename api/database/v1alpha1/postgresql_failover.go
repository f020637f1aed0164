package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PostgreSQLLease are the times of failure detection.
// +kubebuilder:validation:XValidation:rule="(duration(self.fence) + duration('2s')).getMilliseconds() * 21 < duration(self.duration).getMilliseconds() * 19",message="lease.fence: with the 2s that the primary may need to stop, must be at least 10% below duration, since clocks differ: with a duration of 10s at most 7s"
// +kubebuilder:validation:XValidation:rule="duration(self.renew) + duration(self.renew) + duration(self.renew) <= duration(self.fence)",message="lease.renew: must be at most a third of fence, so that one lost request does not stop the primary"
type PostgreSQLLease struct {
	// duration after which an instance may take over from a primary that was not heard of; 10s by default.
	// +optional
	// +kubebuilder:default="10s"
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('5s') && duration(self) <= duration('5m')",message="duration: must be from 5s to 5m"
	Duration metav1.Duration `json:"duration,omitzero"`
	// fence is how long after its last renewal a primary stops at once; 7s by default.
	// +optional
	// +kubebuilder:default="7s"
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('2s') && duration(self) <= duration('5m')",message="fence: must be from 2s to 5m"
	Fence metav1.Duration `json:"fence,omitzero"`
	// renew is how often the primary renews the Lease; 2s by default.
	// +optional
	// +kubebuilder:default="2s"
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('500ms') && duration(self) <= duration('1m')",message="renew: must be from 500ms to 1m"
	Renew metav1.Duration `json:"renew,omitzero"`
}

// PostgreSQLFailover bounds what a failover may lose.
type PostgreSQLFailover struct {
	// maximumLag is how much write-ahead log may be lost by itself where commits wait for no other instance, "32Mi" by default. An
	// instance that is known to lack more than that does not become the primary, and an instance that has more than that too much is not
	// rewound or recloned, before the annotation fettle.dev/accept-data-loss names the instance that is to be the primary. With
	// synchronous, what was acknowledged is never lost, and this field has no effect.
	// +optional
	// +kubebuilder:default="32Mi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0')) && quantity(string(self)).isInteger()",message="maximumLag: must be a number of bytes above 0, such as 32Mi"
	MaximumLag resource.Quantity `json:"maximumLag,omitzero"`
}
