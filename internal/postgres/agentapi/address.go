package agentapi

import (
	"fmt"
	"strconv"
	"strings"
)

// Pod is the name of an instance's pod.
func Pod(cluster string, ordinal int) string {
	return cluster + "-" + strconv.Itoa(ordinal)
}

// Ordinal is the number at the end of a pod's name. It is false for a pod of something else.
func Ordinal(cluster, pod string) (int, bool) {
	number, found := strings.CutPrefix(pod, cluster+"-")
	ordinal, err := strconv.Atoi(number)
	if !found || err != nil || ordinal < 0 || Pod(cluster, ordinal) != pod {
		return 0, false
	}
	return ordinal, true
}

// Host is the name of a pod in the cluster's DNS, and in the certificate that it serves with.
func Host(cluster, namespace, pod string) string {
	return fmt.Sprintf("%s.%s-pods.%s.svc", pod, cluster, namespace)
}
