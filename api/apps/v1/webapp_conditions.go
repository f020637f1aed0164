package v1

// WebAppPhase sums up a WebApp's conditions for people.
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

// Conditions of a WebApp, in the order in which Ready sums them up.
const (
	// WebAppConfigResolved is True when all of spec.configRefs exist.
	WebAppConfigResolved = "ConfigResolved"
	// WebAppApplied is True when all children are as the spec asks.
	WebAppApplied = "Applied"
	// WebAppAvailable is True when the pods of the current template serve.
	WebAppAvailable = "Available"
	// WebAppPublished is True when the Ingress has an address and its certificate, and the Gateways accept the route. Absent where
	// neither is asked for.
	WebAppPublished = "Published"
	// WebAppMonitored is True when the ServiceMonitor exists. Absent where none is asked for.
	WebAppMonitored = "Monitored"
)

// Reasons of a WebApp's conditions, besides those of all kinds and the ones that
// the kubelet and the scheduler give for a pod (ImagePullBackOff, CrashLoopBackOff, Unschedulable, …).
const (
	// ReasonResolved: all references exist.
	ReasonResolved = "Resolved"
	// ReasonConfigMissing: a ConfigMap or Secret of spec.configRefs does not exist yet.
	ReasonConfigMissing = "ConfigMissing"
	// ReasonApplied: all children are as the spec asks.
	ReasonApplied = "Applied"
	// ReasonForeignAutoscaler: all children are as the spec asks, but for the number of pods: a HorizontalPodAutoscaler of somebody else sets it.
	ReasonForeignAutoscaler = "ForeignAutoscaler"
	// ReasonAutoscalerConflict: spec.autoscaling and a HorizontalPodAutoscaler of somebody else scale the same pods.
	ReasonAutoscalerConflict = "AutoscalerConflict"
	// ReasonAvailable: all wanted pods run the current template and serve.
	ReasonAvailable = "Available"
	// ReasonScaledToZero: no pod is wanted.
	ReasonScaledToZero = "ScaledToZero"
	// ReasonRollingOut: pods of the current template are being started.
	ReasonRollingOut = "RollingOut"
	// ReasonProgressDeadlineExceeded: the rollout made no progress for spec.rollout.progressDeadline.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
	// ReasonRolledBack: the rollout of the spec's template failed, and the last good one runs.
	ReasonRolledBack = "RolledBack"
	// ReasonReplicaFailure: pods cannot be created, for example because of a quota.
	ReasonReplicaFailure = "ReplicaFailure"
	// ReasonUnavailable: pods that served no longer do.
	ReasonUnavailable = "Unavailable"
	// ReasonPublished: the Ingress has an address, and the Gateways accept the route.
	ReasonPublished = "Published"
	// ReasonAddressPending: no ingress controller has given the Ingress an address. Ready does not wait for it.
	ReasonAddressPending = "AddressPending"
	// ReasonIngressClassMissing: the IngressClass of spec.ingress.className does not exist.
	ReasonIngressClassMissing = "IngressClassMissing"
	// ReasonTLSSecretMissing: the Secret of spec.ingress.tlsSecretName does not exist.
	ReasonTLSSecretMissing = "TLSSecretMissing"
	// ReasonCertificatePending: the certificate of spec.ingress.certIssuer is being issued.
	ReasonCertificatePending = "CertificatePending"
	// ReasonCertificateFailed: cert-manager could not issue the certificate of spec.ingress.certIssuer.
	ReasonCertificateFailed = "CertificateFailed"
	// ReasonRoutePending: a Gateway of spec.gateway has not answered the HTTPRoute.
	ReasonRoutePending = "RoutePending"
	// ReasonRouteNotAccepted: a Gateway of spec.gateway rejects the HTTPRoute, or does not find what it names.
	ReasonRouteNotAccepted = "RouteNotAccepted"
	// ReasonMonitored: the ServiceMonitor exists.
	ReasonMonitored = "Monitored"
	// ReasonAPIMissing: the API of an optional child is not installed in the cluster.
	ReasonAPIMissing = "APIMissing"
)
