package agentapi

import (
	"fmt"
	"strconv"
	"strings"
)

// Pod is the pod name of an instance.
func Pod(cluster string, ordinal int) string {
	return cluster + "-" + strconv.Itoa(ordinal)
}

// Ordinal is the number at the end of a pod name. It is false for pods that are not instances of the cluster.
func Ordinal(cluster, pod string) (int, bool) {
	number, found := strings.CutPrefix(pod, cluster+"-")
	ordinal, err := strconv.Atoi(number)
	if !found || err != nil || ordinal < 0 || Pod(cluster, ordinal) != pod {
		return 0, false
	}
	return ordinal, true
}

// Host is the DNS name of a pod, which is also in its server certificate.
func Host(cluster, namespace, pod string) string {
	return fmt.Sprintf("%s.%s-pods.%s.svc", pod, cluster, namespace)
}

// claimPrefix begins the names of all PVCs of instances.
const claimPrefix = "data"

// ClaimTemplate is the name of the claim template of a StatefulSet, and of the volume in its pods, by the number of the volumes.
func ClaimTemplate(volumes int) string {
	if volumes <= 1 {
		return claimPrefix
	}
	return claimPrefix + "-" + strconv.Itoa(volumes)
}

// Claim is the name of an instance's PVC.
func Claim(cluster string, volumes, ordinal int) string {
	return ClaimTemplate(volumes) + "-" + Pod(cluster, ordinal)
}

// ParseClaim returns the number of the volumes and of the instance that use a PVC of this name. ok is false for the PVCs of others. The name
// of a cluster begins with a letter, so no name has two meanings.
func ParseClaim(cluster, claim string) (volumes, ordinal int, ok bool) {
	rest, found := strings.CutPrefix(claim, claimPrefix+"-")
	if !found {
		return 0, 0, false
	}
	volumes = 1
	if ordinal, ok = Ordinal(cluster, rest); !ok {
		number, pod, _ := strings.Cut(rest, "-")
		volumes, _ = strconv.Atoi(number)
		ordinal, ok = Ordinal(cluster, pod)
	}
	return volumes, ordinal, ok && volumes > 0 && Claim(cluster, volumes, ordinal) == claim
}
