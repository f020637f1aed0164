package v1

// WebAppPhase summarizes the conditions of a WebApp.
type WebAppPhase string

// Phases of a WebApp.
const (
	PhasePending     WebAppPhase = "Pending"
	PhaseDeploying   WebAppPhase = "Deploying"
	PhaseRunning     WebAppPhase = "Running"
	PhaseDegraded    WebAppPhase = "Degraded"
	PhaseFailed      WebAppPhase = "Failed"
	PhasePaused      WebAppPhase = "Paused"
	PhaseTerminating WebAppPhase = "Terminating"
)

// Conditions of a WebApp, in the order in which Ready summarizes them.
const (
	// WebAppConfigResolved is True if all objects of spec.configRefs exist.
	WebAppConfigResolved = "ConfigResolved"
	// WebAppApplied is True if all child objects match the spec.
	WebAppApplied = "Applied"
	// WebAppAvailable is True if the pods of the current pod template are available.
	WebAppAvailable = "Available"
	// WebAppPublished is True if the Ingress has an address and its certificate, and the Gateways accept the route. Absent without
	// spec.ingress and spec.gateway.
	WebAppPublished = "Published"
	// WebAppMonitored is True if the ServiceMonitor exists. Absent without spec.monitoring.
	WebAppMonitored = "Monitored"
)

// Reasons of a WebApp's conditions, in addition to those of all kinds and those of the kubelet and the scheduler for a pod
// (ImagePullBackOff, CrashLoopBackOff, Unschedulable, …).
const (
	// ReasonResolved: all references exist.
	ReasonResolved = "Resolved"
	// ReasonConfigMissing: an object of spec.configRefs does not exist. Create it, or mark the reference as optional.
	ReasonConfigMissing = "ConfigMissing"
	// ReasonApplied: all child objects match the spec.
	ReasonApplied = "Applied"
	// ReasonForeignAutoscaler: all child objects match the spec, except for the number of pods. A HorizontalPodAutoscaler that is not
	// the WebApp's sets it.
	ReasonForeignAutoscaler = "ForeignAutoscaler"
	// ReasonAutoscalerConflict: spec.autoscaling and another HorizontalPodAutoscaler scale the same pods. Remove one of the two.
	ReasonAutoscalerConflict = "AutoscalerConflict"
	// ReasonAvailable: all desired pods run the current pod template and are available.
	ReasonAvailable = "Available"
	// ReasonScaledToZero: the desired number of pods is 0.
	ReasonScaledToZero = "ScaledToZero"
	// ReasonRollingOut: pods of the current pod template are starting.
	ReasonRollingOut = "RollingOut"
	// ReasonProgressDeadlineExceeded: the rollout made no progress for spec.rollout.progressDeadline. Check the pods, and correct the
	// spec.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
	// ReasonRolledBack: the rollout of the spec failed, and the pod template of the last successful rollout runs. Correct the spec.
	ReasonRolledBack = "RolledBack"
	// ReasonReplicaFailure: Kubernetes cannot create the pods, for example because of a quota. The message has the cause.
	ReasonReplicaFailure = "ReplicaFailure"
	// ReasonUnavailable: pods that were available no longer are. Check the pods.
	ReasonUnavailable = "Unavailable"
	// ReasonPublished: the Ingress has an address, and the Gateways accept the route.
	ReasonPublished = "Published"
	// ReasonAddressPending: no ingress controller has set the address of the Ingress. Ready does not wait for it.
	ReasonAddressPending = "AddressPending"
	// ReasonIngressClassMissing: the IngressClass of spec.ingress.className does not exist. Choose an existing class, or install the
	// ingress controller.
	ReasonIngressClassMissing = "IngressClassMissing"
	// ReasonTLSSecretMissing: the Secret of spec.ingress.tlsSecretName does not exist. Create it.
	ReasonTLSSecretMissing = "TLSSecretMissing"
	// ReasonCertificatePending: cert-manager is issuing the certificate of spec.ingress.certIssuer.
	ReasonCertificatePending = "CertificatePending"
	// ReasonCertificateFailed: cert-manager could not issue the certificate of spec.ingress.certIssuer. Check the Certificate.
	ReasonCertificateFailed = "CertificateFailed"
	// ReasonRoutePending: a Gateway of spec.gateway has not accepted the HTTPRoute yet.
	ReasonRoutePending = "RoutePending"
	// ReasonRouteNotAccepted: a Gateway of spec.gateway rejects the HTTPRoute, or cannot resolve its references. The message has the
	// cause.
	ReasonRouteNotAccepted = "RouteNotAccepted"
	// ReasonMonitored: the ServiceMonitor exists.
	ReasonMonitored = "Monitored"
	// ReasonAPIMissing: the API of an optional child object is not installed in the cluster. Install it, or remove the field.
	ReasonAPIMissing = "APIMissing"
)
