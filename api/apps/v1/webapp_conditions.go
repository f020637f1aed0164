package v1

// WebAppPhase summarizes the conditions of a WebApp.
type WebAppPhase string

// Phases of a WebApp.
const (
	// PhasePending: a ConfigMap or Secret of spec.configRefs does not exist.
	PhasePending WebAppPhase = "Pending"
	// PhaseDeploying: pods of a new template start.
	PhaseDeploying WebAppPhase = "Deploying"
	// PhaseRunning: everything is as the spec asks.
	PhaseRunning WebAppPhase = "Running"
	// PhaseDegraded: something needs attention. The condition Ready has the reason.
	PhaseDegraded WebAppPhase = "Degraded"
	// PhaseFailed: a rollout failed. The condition Ready has the reason.
	PhaseFailed WebAppPhase = "Failed"
	// PhasePaused: spec.paused is true, so Fettle changes nothing.
	PhasePaused WebAppPhase = "Paused"
	// PhaseTerminating: the object is being deleted.
	PhaseTerminating WebAppPhase = "Terminating"
)

// Conditions of a WebApp, in the order in which Ready summarizes them.
const (
	// WebAppConfigResolved is True when all objects of spec.configRefs exist.
	WebAppConfigResolved = "ConfigResolved"
	// WebAppApplied is True when all child objects are as the spec asks.
	WebAppApplied = "Applied"
	// WebAppAvailable is True when enough pods of the current template are ready.
	WebAppAvailable = "Available"
	// WebAppPublished is True when the Ingress has an address and a certificate, and the Gateways accept the route. Absent without
	// both.
	WebAppPublished = "Published"
	// WebAppMonitored is True when the ServiceMonitor exists. Absent without spec.monitoring.
	WebAppMonitored = "Monitored"
)

// Reasons of a WebApp's conditions, in addition to those of all kinds and those of the kubelet and the scheduler for a pod
// (ImagePullBackOff, CrashLoopBackOff, Unschedulable, …).
const (
	// ReasonResolved: all referenced objects exist.
	ReasonResolved = "Resolved"
	// ReasonConfigMissing: a ConfigMap or Secret of spec.configRefs does not exist. What to do: create the object that the message
	// names.
	ReasonConfigMissing = "ConfigMissing"
	// ReasonApplied: all child objects are as the spec asks.
	ReasonApplied = "Applied"
	// ReasonForeignAutoscaler: a HorizontalPodAutoscaler that Fettle did not create sets the number of pods. All else is as the
	// spec asks. What to do: nothing, or delete that HorizontalPodAutoscaler.
	ReasonForeignAutoscaler = "ForeignAutoscaler"
	// ReasonAutoscalerConflict: spec.autoscaling and another HorizontalPodAutoscaler scale the same pods. What to do: remove
	// spec.autoscaling, or delete the other HorizontalPodAutoscaler.
	ReasonAutoscalerConflict = "AutoscalerConflict"
	// ReasonAvailable: all desired run the current template pod and are are available.
	ReasonAvailable = "Available"
	// ReasonScaledToZero: spec.replicas is 0, so there is no pod.
	ReasonScaledToZero = "ScaledToZero"
	// ReasonRollingOut: pods of the current pod start. What to do: wait.
	ReasonRollingOut = "RollingOut"
	// ReasonProgressDeadlineExceeded: the rollout made no progress for spec.rollout.progressDeadline. What to do: correct the image
	// or the configuration. The pods of the last template keep running.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
	// ReasonRolledBack: the rollout failed, and the last good template runs. What to do: correct the spec.
	ReasonRolledBack = "RolledBack"
	// ReasonReplicaFailure: pods cannot be created, for example because of a quota. What to do: read the message, and raise the
	// quota or correct the spec.
	ReasonReplicaFailure = "ReplicaFailure"
	// ReasonUnavailable: pods that were ready are not ready now. What to do: read the logs of the pods and the events of their
	// nodes.
	ReasonUnavailable = "Unavailable"
	// ReasonPublished: the Ingress has an address, and the Gateways accept the route.
	ReasonPublished = "Published"
	// ReasonAddressPending: no ingress controller has set an address on the Ingress. Ready does not wait for it. What to do: check
	// that an ingress controller serves the class.
	ReasonAddressPending = "AddressPending"
	// ReasonIngressClassMissing: the IngressClass of spec.ingress.className does not exist. What to do: install the ingress
	// controller, or correct the name.
	ReasonIngressClassMissing = "IngressClassMissing"
	// ReasonTLSSecretMissing: the Secret of spec.ingress.tlsSecretName does not exist. What to do: create the Secret.
	ReasonTLSSecretMissing = "TLSSecretMissing"
	// ReasonCertificatePending: cert-manager issues the certificate of spec.ingress.certIssuer. What to do: wait.
	ReasonCertificatePending = "CertificatePending"
	// ReasonCertificateFailed: cert-manager could not issue the certificate of spec.ingress.certIssuer. What to do: run kubectl
	// describe certificate, and correct the issuer.
	ReasonCertificateFailed = "CertificateFailed"
	// ReasonRoutePending: a Gateway of spec.gateway has not processed the HTTPRoute. What to do: wait. If it lasts, check the
	// controller of the Gateway.
	ReasonRoutePending = "RoutePending"
	// ReasonRouteNotAccepted: a Gateway of spec.gateway rejects the HTTPRoute, or an object that it refers to does not exist. What
	// to do: read the message, and correct spec.gateway or the Gateway.
	ReasonRouteNotAccepted = "RouteNotAccepted"
	// ReasonMonitored: the ServiceMonitor exists.
	ReasonMonitored = "Monitored"
	// ReasonAPIMissing: the API of an optional child object is not installed in the cluster. What to do: install it, or remove the
	// field. Fettle needs no restart.
	ReasonAPIMissing = "APIMissing"
)
