package v1

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// WebAppService shapes the Service.
type WebAppService struct {
	// type of the Service, ClusterIP by default.
	// +optional
	// +kubebuilder:default=ClusterIP
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`
	// port of the Service, spec.port by default.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// annotations of the Service, for example for a cloud's load balancer.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	Annotations map[string]string `json:"annotations,omitempty"`
	// extraPorts are further ports of the Service and the container.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:XValidation:rule="self.all(p, self.exists_one(q, q.port == p.port))",message="extraPorts: each port may be listed once"
	ExtraPorts []WebAppPort `json:"extraPorts,omitempty"`
}

// WebAppPort is a further TCP port.
type WebAppPort struct {
	// name of the port, for example "metrics".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([a-z0-9-]*[a-z0-9])?$') && self != 'http'",message="name: must be lower-case letters, digits and '-', start with a letter, and not be \"http\", the name of the main port"
	Name string `json:"name"`
	// port of the Service.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
	// targetPort of the container, port by default.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	TargetPort int32 `json:"targetPort,omitempty"`
}

// WebAppIngress publishes the application through an Ingress.
// +kubebuilder:validation:XValidation:rule="!has(self.tlsSecretName) || !has(self.certIssuer)",message="tlsSecretName, certIssuer: set one of the two"
type WebAppIngress struct {
	// host name, for example "shop.example.com".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="host: must be a DNS name in lower case, optionally starting with '*.'"
	Host string `json:"host"`
	// path prefix, "/" by default.
	// +optional
	// +kubebuilder:default="/"
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^/[-a-zA-Z0-9._~%!$&()*+,=:@/]*$')",message="path: must start with '/' and hold only characters of a URL path"
	Path string `json:"path,omitempty"`
	// pathType, Prefix by default.
	// +optional
	// +kubebuilder:default=Prefix
	// +kubebuilder:validation:Enum=Exact;Prefix;ImplementationSpecific
	PathType networkingv1.PathType `json:"pathType,omitempty"`
	// className of the ingress controller, the cluster's default by default.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ClassName string `json:"className,omitempty"`
	// tlsSecretName names a Secret of type kubernetes.io/tls.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	TLSSecretName string `json:"tlsSecretName,omitempty"`
	// certIssuer has cert-manager issue the certificate, into the Secret "<name>-tls".
	// +optional
	CertIssuer *CertIssuer `json:"certIssuer,omitempty"`
	// annotations of the Ingress. Those that inject configuration into the ingress controller are refused.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.endsWith('-snippet') && !k.endsWith('-snippets'))",message="annotations: snippets inject configuration into the ingress controller and are refused"
	Annotations map[string]string `json:"annotations,omitempty"`
}

// CertIssuer names an issuer of cert-manager.
type CertIssuer struct {
	// name of the issuer.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// kind of the issuer: Issuer (by default) or ClusterIssuer.
	// +optional
	// +kubebuilder:default=Issuer
	// +kubebuilder:validation:Enum=Issuer;ClusterIssuer
	Kind string `json:"kind,omitempty"`
}

// WebAppGateway publishes the application through an HTTPRoute.
type WebAppGateway struct {
	// parentRefs are the Gateways that should serve the route.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	ParentRefs []GatewayRef `json:"parentRefs"`
	// hostnames that the route answers to; all of the Gateway's by default.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Hostnames []string `json:"hostnames,omitempty"`
	// path prefix, "/" by default.
	// +optional
	// +kubebuilder:default="/"
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/`
	Path string `json:"path,omitempty"`
}

// GatewayRef names a Gateway.
type GatewayRef struct {
	// name of the Gateway.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// namespace of the Gateway, the WebApp's by default. The Gateway decides which namespaces it serves.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// sectionName is a listener of the Gateway, all by default.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SectionName string `json:"sectionName,omitempty"`
}

// WebAppNetworkPolicy admits traffic only from where it says.
type WebAppNetworkPolicy struct {
	// enabled is false to have no NetworkPolicy; true by default.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`
	// from are the peers that may connect to the pods; by default the pods of the same namespace. An ingress
	// controller, a gateway or Prometheus in another namespace has to be named here.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	From []networkingv1.NetworkPolicyPeer `json:"from,omitempty"`
}

// WebAppMonitoring makes a ServiceMonitor.
type WebAppMonitoring struct {
	// port is the name of the Service's port that serves metrics, "http" (the main port) by default.
	// +optional
	// +kubebuilder:default=http
	// +kubebuilder:validation:MaxLength=15
	Port string `json:"port,omitempty"`
	// path of the metrics, "/metrics" by default.
	// +optional
	// +kubebuilder:default="/metrics"
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/`
	Path string `json:"path,omitempty"`
	// interval between two scrapes, "30s" by default.
	// +optional
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[1-9][0-9]*(ms|s|m|h)$`
	Interval string `json:"interval,omitempty"`
	// labels of the ServiceMonitor, where Prometheus selects by them.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	Labels map[string]string `json:"labels,omitempty"`
}
