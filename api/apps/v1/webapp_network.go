package v1

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// WebAppService configures the Service.
type WebAppService struct {
	// type of the Service. Defaults to ClusterIP.
	// +optional
	// +kubebuilder:default=ClusterIP
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`
	// port of the Service. Defaults to spec.port.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// annotations of the Service, for example for a cloud load balancer.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	Annotations map[string]string `json:"annotations,omitempty"`
	// extraPorts are additional ports of the Service and the container.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:XValidation:rule="self.all(p, self.exists_one(q, q.port == p.port))",message="extraPorts: each port may be listed once"
	ExtraPorts []WebAppPort `json:"extraPorts,omitempty"`
}

// WebAppPort is an additional TCP port.
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
	// targetPort is the port of the container. Defaults to port.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	TargetPort int32 `json:"targetPort,omitempty"`
}

// WebAppIngress publishes the application by an Ingress.
// +kubebuilder:validation:XValidation:rule="!has(self.tlsSecretName) || !has(self.certIssuer)",message="tlsSecretName, certIssuer: set one of the two"
// +kubebuilder:validation:XValidation:rule="!has(self.extraHosts) || !has(self.certIssuer) || self.extraHosts.all(h, !has(h.tlsSecretName))",message="extraHosts: tlsSecretName and certIssuer: set one of the two, since the issued certificate covers all hosts"
// +kubebuilder:validation:XValidation:rule="!has(self.extraHosts) || self.extraHosts.all(h, h.host != self.host)",message="extraHosts: must not repeat host; set extraPaths for more paths of it"
// +kubebuilder:validation:XValidation:rule="!has(self.extraPaths) || self.extraPaths.all(p, p.path != self.path || p.pathType != self.pathType)",message="extraPaths: must not repeat path"
type WebAppIngress struct {
	// host is the host name, for example "shop.example.com".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="host: must be a DNS name in lower case, optionally starting with '*.'"
	Host string `json:"host"`
	// path is the path prefix. Defaults to "/".
	// +optional
	// +kubebuilder:default="/"
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^/[-a-zA-Z0-9._~%!$&()*+,=:@/]*$')",message="path: must start with '/' and hold only characters of a URL path"
	Path string `json:"path,omitempty"`
	// pathType is Prefix, Exact or ImplementationSpecific. Defaults to Prefix.
	// +optional
	// +kubebuilder:default=Prefix
	// +kubebuilder:validation:Enum=Exact;Prefix;ImplementationSpecific
	PathType networkingv1.PathType `json:"pathType,omitempty"`
	// extraPaths are more paths of the host. All lead to the Service.
	// +optional
	// +listType=map
	// +listMapKey=path
	// +listMapKey=pathType
	// +kubebuilder:validation:MaxItems=20
	ExtraPaths []WebAppPath `json:"extraPaths,omitempty"`
	// extraHosts are more host names. status.url has the first host without a wildcard.
	// +optional
	// +listType=map
	// +listMapKey=host
	// +kubebuilder:validation:MaxItems=20
	ExtraHosts []WebAppHost `json:"extraHosts,omitempty"`
	// className is the IngressClass. Defaults to the default class of the cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ClassName string `json:"className,omitempty"`
	// tlsSecretName is the Secret of type kubernetes.io/tls with the certificate of the host, and of extraHosts without their own.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	TLSSecretName string `json:"tlsSecretName,omitempty"`
	// certIssuer makes cert-manager issue one certificate for all hosts into the Secret "<name>-tls".
	// +optional
	CertIssuer *CertIssuer `json:"certIssuer,omitempty"`
	// annotations of the Ingress. Annotations that inject configuration into the ingress controller are rejected.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.endsWith('-snippet') && !k.endsWith('-snippets'))",message="annotations: snippets inject configuration into the ingress controller; remove them"
	Annotations map[string]string `json:"annotations,omitempty"`
}

// WebAppPath is a path of a host.
type WebAppPath struct {
	// path of the requests.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^/[-a-zA-Z0-9._~%!$&()*+,=:@/]*$')",message="path: must start with '/' and hold only characters of a URL path"
	Path string `json:"path"`
	// pathType is Prefix, Exact or ImplementationSpecific. Defaults to Prefix.
	// +optional
	// +kubebuilder:default=Prefix
	// +kubebuilder:validation:Enum=Exact;Prefix;ImplementationSpecific
	PathType networkingv1.PathType `json:"pathType,omitempty"`
}

// WebAppHost is one more host of an Ingress.
type WebAppHost struct {
	// host is the host name, for example "www.example.com".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="host: must be a DNS name in lower case, optionally starting with '*.'"
	Host string `json:"host"`
	// paths of the host. Defaults to the path prefix "/".
	// +optional
	// +listType=map
	// +listMapKey=path
	// +listMapKey=pathType
	// +kubebuilder:validation:MaxItems=20
	Paths []WebAppPath `json:"paths,omitempty"`
	// tlsSecretName is the Secret of type kubernetes.io/tls with the certificate of this host. Defaults to the one of the Ingress.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	TLSSecretName string `json:"tlsSecretName,omitempty"`
}

// CertIssuer refers to an issuer of cert-manager.
type CertIssuer struct {
	// name of the issuer.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// kind of the issuer: Issuer or ClusterIssuer. Defaults to Issuer.
	// +optional
	// +kubebuilder:default=Issuer
	// +kubebuilder:validation:Enum=Issuer;ClusterIssuer
	Kind string `json:"kind,omitempty"`
}

// WebAppGateway publishes the application by an HTTPRoute.
// +kubebuilder:validation:XValidation:rule="!has(self.extraPaths) || !(self.path in self.extraPaths)",message="extraPaths: must not repeat path"
type WebAppGateway struct {
	// parentRefs are the Gateways that the route attaches to.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	ParentRefs []GatewayRef `json:"parentRefs"`
	// hostnames are the host names of the route. Defaults to all host names of the Gateway.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Hostnames []string `json:"hostnames,omitempty"`
	// path is the path prefix. Defaults to "/".
	// +optional
	// +kubebuilder:default="/"
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/`
	Path string `json:"path,omitempty"`
	// extraPaths are more path prefixes.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=1024
	// +kubebuilder:validation:items:Pattern=`^/`
	ExtraPaths []string `json:"extraPaths,omitempty"`
}

// GatewayRef refers to a Gateway.
type GatewayRef struct {
	// name of the Gateway.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// namespace of the Gateway. Defaults to that of the WebApp. The Gateway decides which namespaces may attach routes.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// sectionName is the listener of the Gateway. Defaults to all listeners.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SectionName string `json:"sectionName,omitempty"`
}

// WebAppNetworkPolicy restricts the traffic to the pods.
type WebAppNetworkPolicy struct {
	// enabled creates the NetworkPolicy. Defaults to true.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`
	// from lists the peers that may connect to the pods. Defaults to the pods of the same namespace. Add the ingress controller, the
	// gateway or Prometheus if it runs in another namespace.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	From []networkingv1.NetworkPolicyPeer `json:"from,omitempty"`
}

// WebAppMonitoring creates a ServiceMonitor.
type WebAppMonitoring struct {
	// port is the name of the Service port with the metrics. Defaults to "http", the main port.
	// +optional
	// +kubebuilder:default=http
	// +kubebuilder:validation:MaxLength=15
	Port string `json:"port,omitempty"`
	// path is the HTTP path of the metrics. Defaults to "/metrics".
	// +optional
	// +kubebuilder:default="/metrics"
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/`
	Path string `json:"path,omitempty"`
	// interval between two scrapes. Defaults to "30s".
	// +optional
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[1-9][0-9]*(ms|s|m|h)$`
	Interval string `json:"interval,omitempty"`
	// labels of the ServiceMonitor, for a Prometheus that selects by labels.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	Labels map[string]string `json:"labels,omitempty"`
}
