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
