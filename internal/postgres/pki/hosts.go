package pki

import "strings"

// Hosts are the host names of a cluster's instances: its three Services, and a wildcard for the pods, so that scaling needs
// no new certificate.
func Hosts(cluster, namespace string) []string {
	var hosts []string
	for _, service := range []string{cluster, cluster + "-ro"} {
		hosts = append(hosts, service, service+"."+namespace)
		hosts = append(hosts, qualifiedNames(service+"."+namespace)...)
	}
	pods := cluster + "-pods." + namespace
	hosts = append(hosts, qualifiedNames(pods)...)
	return append(hosts, qualifiedNames("*."+pods)...)
}

// qualifiedNames are the names with .svc and with the default cluster domain.
func qualifiedNames(name string) []string {
	return []string{name + ".svc", name + ".svc.cluster.local"}
}

// IsOwnHost returns whether a host name refers to the cluster's own Services or pods.
func IsOwnHost(cluster, namespace, name string) bool {
	pods := cluster + "-pods"
	service, rest, _ := strings.Cut(strings.TrimSuffix(strings.ToLower(name), "."), ".")
	if second, after, _ := strings.Cut(rest, "."); second == pods {
		service, rest = second, after
	}
	if service != cluster && service != cluster+"-ro" && service != pods {
		return false
	}
	return rest == "" || rest == namespace || rest == namespace+".svc" || strings.HasPrefix(rest, namespace+".svc.")
}
