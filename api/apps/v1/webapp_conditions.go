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
	// ReasonConfigMissing: a ConfigMap or Secret of spec.configRefs does not exist. Create the object that the message names.
	ReasonConfigMissing = "ConfigMissing"
	// ReasonApplied: all child objects are as the spec asks.
	ReasonApplied = "Applied"
	// ReasonForeignAutoscaler: a HorizontalPodAutoscaler that Fettle did not create sets the number of pods. All else is as the
	// spec asks. Nothing, or delete that HorizontalPodAutoscaler.
	ReasonForeignAutoscaler = "ForeignAutoscaler"
	// ReasonAutoscalerConflict: spec.autoscaling and another HorizontalPodAutoscaler scale the same pods. Remove spec.autoscaling,
	// or delete the other HorizontalPodAutoscaler.
	ReasonAutoscalerConflict = "AutoscalerConflict"
	// ReasonAvailable: all pods run the current template and are ready.
	ReasonAvailable = "Available"
	// ReasonScaledToZero: spec.replicas is 0, so there is no pod.
	ReasonScaledToZero = "ScaledToZero"
	// ReasonRollingOut: pods of the current template start. Wait.
	ReasonRollingOut = "RollingOut"
	// ReasonProgressDeadlineExceeded: the rollout made no progress for spec.rollout.progressDeadline. Correct the image or the
	// configuration. The pods of the last template keep running.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
	// ReasonRolledBack: the rollout failed, and the last good template runs. Correct the spec.
	ReasonRolledBack = "RolledBack"
	// ReasonReplicaFailure: pods cannot be created, for example because of a quota. Read the message, and raise the quota or
	// correct the spec.
	ReasonReplicaFailure = "ReplicaFailure"
	// ReasonUnavailable: pods that were ready are not ready now. Read the logs of the pods and the events of their nodes.
	ReasonUnavailable = "Unavailable"
	// ReasonPublished: the Ingress has an address, and the Gateways accept the route.
	ReasonPublished = "Published"
	// ReasonAddressPending: no ingress controller has set an address on the Ingress. Ready does not wait for it. Check that an
	// ingress controller serves the class.
	ReasonAddressPending = "AddressPending"
	// ReasonIngressClassMissing: the IngressClass of spec.ingress.className does not exist. Install the ingress controller, or
	// correct the name.
	ReasonIngressClassMissing = "IngressClassMissing"
	// ReasonTLSSecretMissing: the Secret of spec.ingress.tlsSecretName does not exist. Create the Secret.
	ReasonTLSSecretMissing = "TLSSecretMissing"
	// ReasonCertificatePending: cert-manager issues the certificate of spec.ingress.certIssuer. Wait.
	ReasonCertificatePending = "CertificatePending"
	// ReasonCertificateFailed: cert-manager could not issue the certificate of spec.ingress.certIssuer. Run kubectl describe
	// certificate, and correct the issuer.
	ReasonCertificateFailed = "CertificateFailed"
	// ReasonRoutePending: a Gateway of spec.gateway has not processed the HTTPRoute. Wait. If it lasts, check the controller of the
	// Gateway.
	ReasonRoutePending = "RoutePending"
	// ReasonRouteNotAccepted: a Gateway of spec.gateway rejects the HTTPRoute, or an object that it refers to does not exist. Read
	// the message, and correct spec.gateway or the Gateway.
	ReasonRouteNotAccepted = "RouteNotAccepted"
	// ReasonMonitored: the ServiceMonitor exists.
	ReasonMonitored = "Monitored"
	// ReasonAPIMissing: the API of an optional child object is not installed in the cluster. Install it, or remove the field.
	// Fettle needs no restart.
	ReasonAPIMissing = "APIMissing"
)
