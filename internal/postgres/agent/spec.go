package agent

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/postgres/election"
)

// configOf returns the election's configuration from an object. An instance beyond the number of replicas still counts as an
// instance: it is about to be removed. kept means that the object was loaded from the volume, and may be old.
func configOf(o *Options, object *databasev1alpha1.PostgreSQL, kept bool) election.Config {
	size := 1
	if object.Spec.Replicas != nil {
		size = int(*object.Spec.Replicas)
	}
	size = max(size, o.ordinal()+1)
	wanted, asked := requestedPrimary(o.Cluster, object)
	c := election.Config{
		Self:                o.self(),
		SwitchoverTarget:    wanted,
		SwitchoverRequested: asked,
		Hibernated:          object.Spec.Hibernated,
		Fenced:              isNamed(object, databasev1alpha1.AnnotationFenced, o.Pod, "*"),
		Paused:              object.Spec.Paused,
		Failsafe:            true,
		AutoReclone:         object.Spec.ReplicaRecovery != databasev1alpha1.ReplicaRecoveryManual,
		RecloneRequested:    isNamed(object, databasev1alpha1.AnnotationReclone, o.Pod),
		MaximumLag:          32 << 20, // default for an object without the field
		Timing:              election.DefaultTiming(),
	}
	if bytes := object.Spec.Failover.MaximumLag.Value(); bytes > 0 {
		c.MaximumLag = uint64(bytes)
	}
	lease := object.Spec.Lease
	c.RenewInterval = cmp.Or(seconds(lease.RetryPeriodSeconds), c.RenewInterval)
	c.LeaseDuration = cmp.Or(seconds(lease.LeaseDurationSeconds), c.LeaseDuration)
	c.FenceDeadline = cmp.Or(seconds(lease.RenewDeadlineSeconds), c.FenceDeadline)
	if grace := object.Spec.TerminationGracePeriodSeconds; grace != nil {
		c.StopTimeout = stopTime(c.Timing, time.Duration(*grace)*time.Second)
	}
	for ordinal := range size {
		c.Instances = append(c.Instances, agentapi.Pod(o.Cluster, ordinal))
	}
	if s := object.Spec.Synchronous; s != nil {
		c.Synchronous = int(s.Number)
	}
	if !kept {
		c.Generation, c.AcceptDataLoss = object.Generation, object.Annotations[databasev1alpha1.AnnotationAcceptDataLoss]
	}
	return c
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

// requestedPrimary is the instance requested as the primary: temporarily by annotation, otherwise by the spec. A number stands
// for its pod.
func requestedPrimary(cluster string, object *databasev1alpha1.PostgreSQL) (pod string, asked bool) {
	for i, wanted := range []string{object.Annotations[databasev1alpha1.AnnotationSwitchover], object.Spec.PreferredPrimary} {
		if ordinal, err := strconv.Atoi(wanted); err == nil && ordinal >= 0 {
			return agentapi.Pod(cluster, ordinal), i == 0
		}
		if _, ok := agentapi.Ordinal(cluster, wanted); ok {
			return wanted, i == 0
		}
	}
	return "", false
}

// isNamed reports that an annotation, a list of pods, contains one of the names.
func isNamed(object *databasev1alpha1.PostgreSQL, annotation string, names ...string) bool {
	for name := range strings.SplitSeq(object.Annotations[annotation], ",") {
		if slices.Contains(names, strings.TrimSpace(name)) {
			return true
		}
	}
	return false
}
