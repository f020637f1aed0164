package postgresql

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

// isHibernated is true when all instances are stopped, as the spec asks.
func isHibernated(pg *databasev1alpha1.PostgreSQL, c *cluster) bool {
	return pg.Spec.Hibernated && c.set != nil && c.size() == 0 && len(c.running()) == 0
}

// neverReady is true until all instances served for the first time, or there was trouble after the first primary. It goes by the
// phase that was written last, so it is asked for before a new one is set.
func neverReady(pg *databasev1alpha1.PostgreSQL) bool {
	switch pg.Status.Phase {
	case "", databasev1alpha1.PhasePending, databasev1alpha1.PhaseCreating:
		return true
	}
	return pg.Status.Timeline == 0
}

// creationTime is how long an instance may take to start for the first time: what its agent says later is trouble, and not just
// a start.
const creationTime = 45 * time.Second

// beingCreated reports whether an instance is started for the first time. Its time begins with its pod, and that of a pod with
// the StatefulSet: a cluster that is slow to make them is not in trouble.
func beingCreated(pg *databasev1alpha1.PostgreSQL, c *cluster, in *instance, at time.Time) bool {
	if !neverReady(pg) || c.set == nil {
		return neverReady(pg)
	}
	begun := pg.CreationTimestamp
	if begun.Before(&c.set.CreationTimestamp) {
		begun = c.set.CreationTimestamp
	}
	if in.pod != nil && begun.Before(&in.pod.CreationTimestamp) {
		begun = in.pod.CreationTimestamp
	}
	return at.Sub(begun.Time) < creationTime
}

func primaryReady(pg *databasev1alpha1.PostgreSQL, seen *observed) conditions.State {
	c := &seen.cluster
	switch primary := c.primary(); {
	case isHibernated(pg, c):
		return conditions.True(databasev1alpha1.ReasonHibernated, "all instances are stopped because spec.hibernated is true")
	case primary != nil:
		return primaryState(pg, seen, primary)
	case pg.Spec.Hibernated:
		return conditions.False(databasev1alpha1.ReasonScaling, "all instances are being stopped because spec.hibernated is true")
	case c.switching:
		return conditions.False(databasev1alpha1.ReasonVolumesSwitching, switchingVolumes(pg))
	}
	for i := range c.instances {
		if bad := podProblemOf(&c.instances[i]); bad != nil && (len(c.instances) == 1 || neverReady(pg)) {
			return conditions.False(bad.Reason, bad.Message)
		}
	}
	if neverReady(pg) {
		return firstReady(pg, seen)
	}
	if isRestored(pg) {
		return restoring(pg, c)
	}
	return noPrimary(c)
}

// restoring tells of a primary that a restore in place is about to make.
func restoring(pg *databasev1alpha1.PostgreSQL, c *cluster) conditions.State {
	for i := range c.instances {
		if v, ok := copyState(pg, &c.instances[i]); ok {
			return v
		}
	}
	name, _ := pg.RestoredBy()
	return conditions.False(databasev1alpha1.ReasonVolumesSwitching, "the first instance is being started, to restore the backup of Restore "+name)
}

// noPrimary tells of a primary that there was once.
func noPrimary(c *cluster) conditions.State {
	if best := c.mostAdvanced(); best != nil {
		return conditions.False(databasev1alpha1.ReasonDataLossNotAccepted, fmt.Sprintf("no primary: %s %s", best.name, best.status.Message))
	}
	if !slices.ContainsFunc(c.instances, func(i instance) bool { return !i.fenced }) && len(c.instances) > 0 {
		return conditions.False(databasev1alpha1.ReasonInstanceFenced, fmt.Sprintf("no primary: the annotation %s stops all of them; remove it to start them again",
			databasev1alpha1.AnnotationFenced))
	}
	if count, _ := c.unschedulable(); count > 0 && count == len(c.instances) {
		return conditions.False(databasev1alpha1.ReasonNoPrimary, "no primary, because no instance has a node: "+podProblemOf(&c.instances[0]).Message)
	}
	return conditions.False(databasev1alpha1.ReasonNoPrimary, "no primary: the instances elect one among those that are healthy; see status.instanceStatuses")
}

// primaryState tells of the primary, and why it does not give way to the instance that spec.preferredPrimary names. Where its agent does
// not answer, that stays as it was.
func primaryState(pg *databasev1alpha1.PostgreSQL, seen *observed, primary *instance) conditions.State {
	text := primary.name + " is primary"
	was := meta.FindStatusCondition(pg.Status.Conditions, databasev1alpha1.PostgreSQLPrimaryReady)
	switch {
	case primary.status != nil && primary.status.Reason == databasev1alpha1.ReasonWritesRejected:
		return conditions.False(primary.status.Reason, primary.status.Message)
	case primary.status != nil && primary.status.Election.TargetOnProbation != "":
		wanted := primary.status.Election.TargetOnProbation
		return conditions.True(databasev1alpha1.ReasonSwitchoverDeferred, fmt.Sprintf(
			"%s; %s (spec.preferredPrimary) was unresponsive as primary and is eligible again after 10 minutes: to switch over now, set the annotation %s=%s",
			text, wanted, databasev1alpha1.AnnotationSwitchover, wanted))
	case primary.status == nil && was != nil && was.Reason == databasev1alpha1.ReasonSwitchoverDeferred &&
		was.ObservedGeneration == pg.Generation && seen.formerPrimary == primary.name:
		return conditions.True(was.Reason, was.Message)
	}
	return conditions.True(databasev1alpha1.ReasonPrimaryReady, text+missingStandbys(pg, &seen.cluster))
}

// missingStandbys adds to what is said of a primary that it has too few replicas to acknowledge what is written; empty where it has
// enough. Before the first instances have been copied nothing waits for them.
func missingStandbys(pg *databasev1alpha1.PostgreSQL, c *cluster) string {
	sync, follow := pg.Spec.Synchronous, 0
	for i := range c.instances {
		if in := &c.instances[i]; in != c.primary() && in.ready() {
			follow++
		}
	}
	if sync == nil || neverReady(pg) || follow >= int(sync.Number) {
		return ""
	}
	return fmt.Sprintf(", but commits wait for standbys: spec.synchronous.number is %d, and %d are ready", sync.Number, follow)
}

// firstReady tells of a primary that never was.
func firstReady(pg *databasev1alpha1.PostgreSQL, seen *observed) conditions.State {
	instances := seen.cluster.instances
	for i := range instances {
		if v, ok := copyState(pg, &instances[i]); ok {
			return v
		}
	}
	first := max(0, slices.IndexFunc(instances, func(i instance) bool { return !i.ready() }))
	if len(instances) == 0 || beingCreated(pg, &seen.cluster, &instances[first], seen.at) {
		return conditions.False(databasev1alpha1.ReasonCreating, "the first instance is being started")
	}
	return conditions.False(databasev1alpha1.ReasonInstanceNotReady, notReady(pg, &instances[first]))
}

func instancesReady(pg *databasev1alpha1.PostgreSQL, seen *observed) conditions.State {
	c := &seen.cluster
	switch {
	case isHibernated(pg, c):
		return conditions.True(databasev1alpha1.ReasonHibernated, "all instances are stopped because spec.hibernated is true")
	case c.set == nil && seen.applyErr != nil:
		return conditions.Unknown(fettlev1.ReasonReconciling, "the StatefulSet does not exist")
	case seen.step.reason != "":
		return conditions.False(seen.step.reason, seen.step.message)
	}
	if going := c.terminatingInstance(); going != nil {
		return conditions.False(databasev1alpha1.ReasonScaling, going.name+" is being stopped")
	}
	fenced := ""
	for i := range c.instances {
		switch in := &c.instances[i]; {
		case in.ready():
		case in.fenced:
			fenced = in.name
		default:
			return unreadyState(pg, c, in, seen.at)
		}
	}
	if fenced != "" {
		return conditions.False(databasev1alpha1.ReasonInstanceFenced, fmt.Sprintf("%s is stopped by the annotation %s: remove it to start the instance again",
			fenced, databasev1alpha1.AnnotationFenced))
	}
	return conditions.True(databasev1alpha1.ReasonInstancesReady, "all instances are ready and up to date")
}

// unreadyState says why an instance that should serve does not.
func unreadyState(pg *databasev1alpha1.PostgreSQL, c *cluster, in *instance, at time.Time) conditions.State {
	if v, ok := copyState(pg, in); ok && podProblemOf(in) == nil {
		return v
	}
	switch bad := podProblemOf(in); {
	case in.unschedulable() && c.primary() != nil:
		// Only where another instance has the data, and the agents judge by those that run.
		return conditions.False(bad.Reason, fmt.Sprintf("%s If the node is lost for good, delete the PVC and the pod: the instance is then recloned from %s (kubectl -n %s delete pvc/%s pod/%s)",
			bad.Message, c.primary().name, pg.Namespace, agentapi.Claim(pg.Name, c.volumes, in.ordinal), in.name))
	case in.risksDataLoss():
		return conditions.False(databasev1alpha1.ReasonDataLossNotAccepted, notReady(pg, in))
	case in.status != nil && in.status.NeedsReclone:
		return conditions.False(databasev1alpha1.ReasonRecloneNeeded, notReady(pg, in))
	case bad != nil:
		return conditions.False(bad.Reason, bad.Message)
	case beingCreated(pg, c, in, at):
		return conditions.False(databasev1alpha1.ReasonCreating, in.name+" is being started")
	}
	return conditions.False(databasev1alpha1.ReasonInstanceNotReady, notReady(pg, in))
}

func notReady(pg *databasev1alpha1.PostgreSQL, in *instance) string {
	if text := agentMessage(in.status); text != "" {
		return in.name + " is not ready: " + text
	}
	if in.terminating() && in.pod.Spec.NodeName != "" {
		return fmt.Sprintf("%s is being stopped on node %s. If that node is lost for good, kubectl delete node %s releases the pod",
			in.name, in.pod.Spec.NodeName, in.pod.Spec.NodeName)
	}
	if in.pod == nil {
		return fmt.Sprintf("%s has no pod yet: if it gets none, kubectl describe statefulset %s says why", in.name, pg.Name)
	}
	return fmt.Sprintf("%s is not ready: see kubectl logs %s", in.name, in.name)
}

// configured judges parameters, databases, roles and extensions. settled says that they were found in effect before; the
// agents need not be asked then.
func configured(pg *databasev1alpha1.PostgreSQL, seen *observed, settled bool) conditions.State {
	c := &seen.cluster
	switch {
	case seen.parameters != nil:
		return conditions.False(databasev1alpha1.ReasonParametersInvalid, "spec.parameters: "+seen.parameters.Error())
	case seen.secretMissing != "":
		return conditions.False(databasev1alpha1.ReasonSecretMissing, seen.secretMissing)
	case seen.rejected != "":
		return conditions.False(databasev1alpha1.ReasonApplyRejected, "PostgreSQL rejected: "+seen.rejected)
	case isHibernated(pg, c):
		return conditions.True(databasev1alpha1.ReasonHibernated, "all instances are stopped because spec.hibernated is true")
	case seen.objectsErr != nil:
		return conditions.Unknown(fettlev1.ReasonReconciling, fmt.Sprintf("cannot apply databases and roles: primary agent unreachable: %s", unreachableCause(seen.objectsErr)))
	case c.primary() == nil:
		return conditions.Unknown(fettlev1.ReasonReconciling, "waiting for a primary to apply databases and roles")
	case seen.rotationBlocked != "":
		return conditions.Unknown(fettlev1.ReasonReconciling, seen.rotationBlocked)
	}
	v := configurationState(pg, c, settled)
	if v.Status == metav1.ConditionTrue && len(seen.foreignSecrets) > 0 {
		taken := seen.foreignSecrets[0]
		return conditions.False(fettlev1.ReasonNameConflict, fmt.Sprintf(
			"spec.roles: Secret %q, for the password of role %s, exists and does not belong to Fettle: rename or delete the Secret, or set passwordSecret. Until then Fettle sets no password for the role",
			taken.secret, taken.role))
	}
	return v
}

// unreachableCause says why an agent could not be reached, for people.
func unreachableCause(err error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "certificate signed by an unexpected CA; the kubelet updates it within two minutes"
	}
	if request, ok := errors.AsType[*url.Error](err); ok {
		return request.Err.Error()
	}
	return err.Error()
}

// configurationState judges whether the instances have taken over the configuration.
func configurationState(pg *databasev1alpha1.PostgreSQL, c *cluster, settled bool) conditions.State {
	for _, in := range c.running() {
		switch {
		case in.fenced:
		case in.status != nil && in.status.ConfigError != "":
			return conditions.False(databasev1alpha1.ReasonParametersInvalid, fmt.Sprintf("%s cannot apply the configuration: %s", in.name, in.status.ConfigError))
		case in.status == nil && !settled && in.unschedulable():
			return conditions.Unknown(fettlev1.ReasonReconciling, in.name+" applies the configuration when it starts; it waits for a node")
		case in.status == nil && !settled, in.status != nil && in.status.Generation < pg.Generation:
			return conditions.Unknown(fettlev1.ReasonReconciling, in.name+" is applying the configuration")
		}
	}
	return conditions.True(databasev1alpha1.ReasonConfigured, "parameters, databases, roles, passwords and extensions match the spec")
}
