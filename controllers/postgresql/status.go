package postgresql

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

const (
	maxInstanceMessage = 512
)

// observed is what was found, and what became of the step that was taken.
type observed struct {
	at      time.Time
	cluster cluster
	growth  growth
	step    Step
	// formerPrimary is the pod that status named as the primary before.
	formerPrimary string
	// applyErr is why a child could not be written, growErr why a volume could not be made larger.
	applyErr, growErr error
	// secretMissing names a Secret that the spec refers to and that does not exist; parameters is why they are refused.
	secretMissing string
	parameters    error
	// foreignSecrets are the roles whose Secret belongs to another owner.
	foreignSecrets []credential
	// login is whom the owner's Secret names; waiting is why a rotation takes long.
	login, sslMode, rotationBlocked string
	// rejected is what PostgreSQL did not accept; objectsErr is why it could not be told.
	rejected   string
	objectsErr error
	// objectsApplied is set where the primary has the first database and its owner.
	objectsApplied bool
	// issued is what an issuer gave, nil where none is asked; serving is what clients are shown.
	issued  *issuedCertificate
	serving serving
	// monitoringMissing is true where the cluster lacks the Prometheus Operator.
	monitoringMissing bool
}

// summarized are the conditions that make up Ready, the first in trouble first.
var summarized = []string{
	databasev1alpha1.PostgreSQLApplied, databasev1alpha1.PostgreSQLVolumesReady, databasev1alpha1.PostgreSQLPrimaryReady,
	databasev1alpha1.PostgreSQLInstancesReady, databasev1alpha1.PostgreSQLConfigured, databasev1alpha1.PostgreSQLArchiving,
	databasev1alpha1.PostgreSQLMonitored, databasev1alpha1.PostgreSQLCertified,
}

// setStatus writes into pg's status what was observed.
func setStatus(pg *databasev1alpha1.PostgreSQL, seen *observed) {
	st := &pg.Status
	settled := configuredBefore(pg)
	st.ObservedGeneration = pg.Generation
	describe(pg, seen)
	conditions.SetState(pg, databasev1alpha1.PostgreSQLApplied, true, applied(seen))
	conditions.SetState(pg, databasev1alpha1.PostgreSQLVolumesReady, true, volumesReady(pg, &seen.cluster, seen.growth, seen.growErr, seen.at))
	conditions.SetState(pg, databasev1alpha1.PostgreSQLPrimaryReady, true, primaryReady(pg, seen))
	conditions.SetState(pg, databasev1alpha1.PostgreSQLInstancesReady, true, instancesReady(pg, seen))
	conditions.SetState(pg, databasev1alpha1.PostgreSQLConfigured, true, configured(pg, seen, settled))
	conditions.SetState(pg, databasev1alpha1.PostgreSQLArchiving, wantsBackup(pg), archiving(pg, &seen.cluster))
	st.LastArchivedTime = lastArchived(st.LastArchivedTime, pg, &seen.cluster)
	conditions.SetState(pg, databasev1alpha1.PostgreSQLMonitored, pg.Spec.Monitoring.Enabled, monitored(seen))
	conditions.SetState(pg, databasev1alpha1.PostgreSQLCertified, seen.issued != nil, certified(seen.issued, seen.serving))
	problem := summarize(pg)
	st.Phase = phase(pg, seen, problem)
}

// summarize sets Ready, which says whether clients are served: an instance accepts writes, and the database exists. Its reason and
// message are those of the most important problem, also while Ready is True. The problem is returned; it is True where there is none.
func summarize(pg *databasev1alpha1.PostgreSQL) (problem metav1.Condition) {
	st := &pg.Status
	problem = conditions.Worst(st.Conditions, pg.Generation, present(st.Conditions)...)
	ready := metav1.Condition{Reason: problem.Reason, Message: problem.Message}
	if problem.Status == metav1.ConditionTrue {
		ready.Reason, ready.Message = fettlev1.Ready, ""
	}
	primary := meta.FindStatusCondition(st.Conditions, databasev1alpha1.PostgreSQLPrimaryReady)
	switch {
	case primary == nil, primary.Status == metav1.ConditionTrue && st.ConnectionString == "":
		ready.Status = problem.Status // no instance or no database yet
	default:
		ready.Status = primary.Status
	}
	conditions.Set(pg, fettlev1.Ready, ready.Status, ready.Reason, ready.Message)
	st.Ready = ready.Status == metav1.ConditionTrue
	conditions.SetKstatus(pg, kstatusOf(st.Ready, problem), problem.Reason, problem.Message)
	return problem
}

// kstatusOf is the condition by which kstatus learns what Ready does not say; "" where there is none.
func kstatusOf(ready bool, problem metav1.Condition) string {
	switch {
	case problem.Status == metav1.ConditionFalse && (conditions.Terminal(problem.Reason) || slices.Contains(stalled, problem.Reason)):
		return fettlev1.Stalled
	case ready && problem.Status != metav1.ConditionTrue && inProgress(problem.Reason):
		return fettlev1.Reconciling
	}
	return ""
}

// stalled are the reasons, besides those of all kinds, that last until a person changes something.
var stalled = []string{
	databasev1alpha1.ReasonParametersInvalid, databasev1alpha1.ReasonApplyRejected,
	databasev1alpha1.ReasonDataLossNotAccepted, databasev1alpha1.ReasonRecloneNeeded, databasev1alpha1.ReasonOrphanedVolumes,
	databasev1alpha1.ReasonVolumesUnknown, databasev1alpha1.ReasonSourceRejected, databasev1alpha1.ReasonSourceUntrusted,
	databasev1alpha1.ReasonSourceUnsuitable, databasev1alpha1.ReasonSourceTooLarge,
}

// describe lists the instances, and says how to reach the database.
func describe(pg *databasev1alpha1.PostgreSQL, seen *observed) {
	st, c := &pg.Status, &seen.cluster
	seen.formerPrimary, st.Primary = st.Primary, ""
	if primary := c.primary(); primary != nil {
		st.Primary = primary.name
		if s := primary.status; s != nil {
			if s.Timeline > 0 {
				st.Timeline = int64(s.Timeline)
			}
			if s.ServerVersion != "" {
				st.CurrentVersion = s.ServerVersion
			}
		}
	}
	st.Instances, st.ReadyInstances, st.Selector = int32(c.size()), 0, k8slabels.FormatLabels(selector(pg)) //nolint:gosec // at most 9
	st.InstanceStatuses, st.Progress = nil, nil
	for i := range c.instances {
		one := describeOne(&c.instances[i])
		if c.instances[i].ready() {
			st.ReadyInstances++
		}
		if s := c.instances[i].status; s != nil && s.Progress != nil {
			st.Progress = s.Progress // only the first instance restores a backup
		}
		st.InstanceStatuses = append(st.InstanceStatuses, one)
	}
	st.Volumes = int32(c.volumes) //nolint:gosec // at most 999
	st.CredentialsSecret = ownerSecret(pg)
	if st.ConnectionString == "" && !seen.objectsApplied {
		return // the database does not exist yet
	}
	st.ConnectionString = fmt.Sprintf("postgresql://%s@%s:%d/%s?sslmode=%s",
		cmp.Or(seen.login, string(pg.Spec.OwnerName())), host(pg), portPostgres, pg.Spec.DatabaseName, cmp.Or(seen.sslMode, "require"))
}

func describeOne(in *instance) databasev1alpha1.PostgreSQLInstance {
	one := databasev1alpha1.PostgreSQLInstance{Name: in.name, Role: roleOf(in), State: stateOf(in)}
	switch one.State {
	case databasev1alpha1.InstanceStopped:
		one.Role = databasev1alpha1.RoleUnknown
	case databasev1alpha1.InstanceStarting, databasev1alpha1.InstanceFailed:
		one.Message = agentMessage(in.status)
		if bad := podProblemOf(in); one.Message == "" && bad != nil {
			one.Message = bad.Message
		}
		one.Message = conditions.Clip(one.Message, maxInstanceMessage)
	case databasev1alpha1.InstanceReady, databasev1alpha1.InstanceOutdated, databasev1alpha1.InstanceFenced:
	}
	return one
}

func stateOf(in *instance) databasev1alpha1.InstanceState {
	switch {
	case in.pod == nil, in.terminating():
		return databasev1alpha1.InstanceStopped
	case in.ready() && (in.outdated || in.needsRestart()):
		return databasev1alpha1.InstanceOutdated
	case in.ready():
		return databasev1alpha1.InstanceReady
	case in.fenced:
		return databasev1alpha1.InstanceFenced
	case podProblemOf(in) != nil, copyBlocked(in):
		return databasev1alpha1.InstanceFailed
	}
	return databasev1alpha1.InstanceStarting
}

func roleOf(in *instance) databasev1alpha1.InstanceRole {
	switch {
	case in.labelled(databasev1alpha1.LabelRolePrimary):
		return databasev1alpha1.RolePrimary
	case in.labelled(databasev1alpha1.LabelRoleReplica), in.ready() && in.status != nil && in.status.Role == agentapi.Replica:
		return databasev1alpha1.RoleReplica // its label comes a moment after it is ready
	}
	return databasev1alpha1.RoleUnknown
}

// configuredBefore reports whether the last pass found this generation in effect everywhere. While instances were being brought
// up to date it was not: which of them wait for a restart is known by their agents alone, and one that does not answer may too.
func configuredBefore(pg *databasev1alpha1.PostgreSQL) bool {
	c := meta.FindStatusCondition(pg.Status.Conditions, databasev1alpha1.PostgreSQLConfigured)
	instances := meta.FindStatusCondition(pg.Status.Conditions, databasev1alpha1.PostgreSQLInstancesReady)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == pg.Generation &&
		(instances == nil || !slices.Contains(updating, instances.Reason))
}

// onlyForeignSecrets reports whether the last reconcile found this generation in effect except for a role whose Secret belongs to another owner.
func onlyForeignSecrets(pg *databasev1alpha1.PostgreSQL) bool {
	c := meta.FindStatusCondition(pg.Status.Conditions, databasev1alpha1.PostgreSQLConfigured)
	return c != nil && c.Reason == fettlev1.ReasonNameConflict && c.ObservedGeneration == pg.Generation
}

// present leaves out the conditions that do not apply. Archiving that is about to start is no problem.
func present(conds []metav1.Condition) []string {
	return slices.DeleteFunc(slices.Clone(summarized), func(t string) bool {
		c := meta.FindStatusCondition(conds, t)
		return c == nil || t == databasev1alpha1.PostgreSQLArchiving && c.Status == metav1.ConditionUnknown
	})
}

// setBlocked reports a Secret that belongs to another owner or cannot be used. Nothing else was reconciled: of the instances it is known
// what the kubelet says.
func setBlocked(pg *databasev1alpha1.PostgreSQL, seen *observed) {
	pg.Status.ObservedGeneration = pg.Generation
	conditions.SetState(pg, databasev1alpha1.PostgreSQLApplied, true, applied(seen))
	pg.Status.Primary = ""
	if primary := seen.cluster.primary(); primary != nil {
		pg.Status.Primary = primary.name
	}
	conditions.SetState(pg, databasev1alpha1.PostgreSQLPrimaryReady, seen.cluster.set != nil, primaryReady(pg, seen))
	summarize(pg)
	pg.Status.Phase = databasev1alpha1.PhaseFailed
}

func applied(seen *observed) conditions.State {
	if seen.applyErr == nil {
		return conditions.True(databasev1alpha1.ReasonApplied, "all children match the spec")
	}
	reason := apply.Reason(seen.applyErr)
	if _, unreadable := errors.AsType[*caError](seen.applyErr); unreadable {
		reason = fettlev1.ReasonInvalid
	}
	return conditions.False(reason, seen.applyErr.Error())
}

func monitored(seen *observed) conditions.State {
	switch {
	case seen.monitoringMissing:
		return conditions.False(databasev1alpha1.ReasonAPIMissing, "spec.monitoring: the cluster has no PodMonitor and PrometheusRule (monitoring.coreos.com/v1): install the Prometheus Operator, or remove the field")
	case seen.applyErr != nil:
		return conditions.Unknown(fettlev1.ReasonReconciling, "unknown until all children are applied")
	}
	return conditions.True(databasev1alpha1.ReasonMonitored, "the PodMonitor and the PrometheusRule exist")
}

func phase(pg *databasev1alpha1.PostgreSQL, seen *observed, problem metav1.Condition) databasev1alpha1.PostgreSQLPhase {
	switch {
	case pg.Spec.Hibernated && problem.Status == metav1.ConditionTrue:
		return databasev1alpha1.PhaseHibernated
	case problem.Status == metav1.ConditionTrue:
		return databasev1alpha1.PhaseRunning
	case slices.Contains(updating, problem.Reason), isRestored(pg) && inProgress(problem.Reason):
		return databasev1alpha1.PhaseUpdating
	case neverReady(pg) && onlyCreating(problem):
		return databasev1alpha1.PhaseCreating
	case pg.Status.Timeline == 0 && seen.cluster.set == nil:
		return databasev1alpha1.PhasePending
	case seen.cluster.primary() == nil && problem.Reason != databasev1alpha1.ReasonNoPrimary && problem.Reason != databasev1alpha1.ReasonOrphanedVolumes:
		return databasev1alpha1.PhaseFailed
	default:
		return databasev1alpha1.PhaseDegraded
	}
}

// updating are the reasons of work that goes on as planned.
var updating = []string{
	databasev1alpha1.ReasonUpdating, databasev1alpha1.ReasonScaling, databasev1alpha1.ReasonSwitchover, databasev1alpha1.ReasonVolumeGrowing, databasev1alpha1.ReasonVolumesSwitching,
}

func onlyCreating(problem metav1.Condition) bool {
	return problem.Reason == databasev1alpha1.ReasonCreating || problem.Reason == databasev1alpha1.ReasonCopying || problem.Status == metav1.ConditionUnknown
}
