package postgresql

import (
	"cmp"
	"slices"
	"strings"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/podproblem"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/postgres/config"
)

// instance is one server as it is observed.
type instance struct {
	ordinal int
	name    string
	pod     *corev1.Pod                   // nil while there is none
	claim   *corev1.PersistentVolumeClaim // nil while there is none
	// status is what its agent said last; nil when it was not asked, or did not answer.
	status *agentapi.Status
	// unreachable is set when the agent was asked and did not answer: whether its server runs is known to the kubelet alone, and late.
	unreachable bool
	// fenced is set where people have stopped it by annotation.
	fenced bool
	// tokenRevoked is set when the API server refuses the pod's token, since the ServiceAccount that it was made for is gone.
	tokenRevoked bool
	// outdated is set when the pod is of another template than the present one.
	outdated bool
	// onClosedNode is set when the pod runs on a node that is closed to it. It is known only while it matters, see drain.go.
	onClosedNode bool
}

func (i *instance) terminating() bool { return i.pod != nil && i.pod.DeletionTimestamp != nil }

// ready is true when the kubelet says so and the agent, if it was asked, agrees: the kubelet learns of a restart later.
func (i *instance) ready() bool {
	return i.pod != nil && i.pod.DeletionTimestamp == nil && podproblem.IsTrue(i.pod, corev1.PodReady) && (i.status == nil || i.status.Ready)
}

// mayRun is true while a server runs, or may do so for all that is known: one whose agent does not answer counts for as long
// as the kubelet says that it is ready.
func (i *instance) mayRun() bool {
	if i.status == nil {
		return i.ready()
	}
	return !i.terminating() && i.status.Phase != agentapi.Stopped && i.status.Phase != agentapi.Fenced
}

func (i *instance) labelled(role string) bool {
	return i.pod != nil && i.pod.Labels[databasev1alpha1.LabelRole] == role
}

// needsRestart is true when parameters wait for a restart.
func (i *instance) needsRestart() bool { return i.status != nil && len(i.status.PendingRestart) > 0 }

// copiesData is true while an instance gets its data, which may take hours and starts from zero in another pod. One that says what is
// in the way of the copy does not count.
func (i *instance) copiesData() bool {
	if i.status == nil || copyBlocked(i) {
		return false
	}
	return i.status.Phase == agentapi.Cloning || i.status.Phase == agentapi.Rewinding || i.status.Phase == agentapi.Initializing
}

// primaryRestartsFirst is true when all that a primary waits for is a restart that no other can do in its place: a standby must
// not have less of some parameters than its primary, so it keeps what it has until the primary itself has come down.
func (i *instance) primaryRestartsFirst() bool {
	return !i.outdated && i.needsRestart() && slices.ContainsFunc(config.StandbyMinimums(), func(name string) bool {
		return slices.Contains(i.status.PendingRestart, name)
	})
}

// cluster is all instances, by ordinal: those that should be and those that are.
type cluster struct {
	set       *k8sappsv1.StatefulSet // nil while there is none
	instances []instance
	// templateNotObserved is true until the controller of StatefulSets has seen the present template: a pod that is deleted before may be made
	// re-created from the last one.
	templateNotObserved bool
	// volumes is the number of the volumes that the instances use. switching is set while they are stopped for others, and volumesBlocked is why
	// the present ones stay although others are requested.
	volumes        int
	switching      bool
	volumesBlocked string
	// otherClaims are the names of PVCs of other volumes, and otherSize is the largest of them.
	otherClaims []string
	otherSize   resource.Quantity
	// orphaned are the names of PVCs of a former PostgreSQL of this name that no instance uses, and that a person has to decide about.
	orphaned []string
}

// size is the number of replicas of the StatefulSet; 0 without one.
func (c *cluster) size() int {
	if c.set == nil || c.set.Spec.Replicas == nil {
		return 0
	}
	return int(*c.set.Spec.Replicas)
}

// primary is the instance that is primary and ready; nil when there is none.
func (c *cluster) primary() *instance {
	for i := range c.instances {
		if in := &c.instances[i]; in.ready() && in.labelled(databasev1alpha1.LabelRolePrimary) {
			return in
		}
	}
	return nil
}

// terminatingInstance is an instance that the StatefulSet is about to take away; nil when there is none.
func (c *cluster) terminatingInstance() *instance {
	for _, in := range c.running() {
		if c.set != nil && in.ordinal >= c.size() {
			return in
		}
	}
	return nil
}

// running are the instances that have a pod.
func (c *cluster) running() []*instance {
	var out []*instance
	for i := range c.instances {
		if c.instances[i].pod != nil {
			out = append(out, &c.instances[i])
		}
	}
	return out
}

// risksDataLoss is true where data loss waits for consent: to elect the instance, or to discard its surplus.
func (i *instance) risksDataLoss() bool {
	return i.status != nil && i.status.Reason == databasev1alpha1.ReasonDataLossNotAccepted
}

// mostAdvanced is the instance that has most of those which lack too much to become the primary; nil when there is none.
func (c *cluster) mostAdvanced() *instance {
	var best *instance
	for i := range c.instances {
		if in := &c.instances[i]; in.risksDataLoss() && (best == nil || in.status.Election.Position.Compare(best.status.Election.Position) > 0) {
			best = in
		}
	}
	return best
}

// named returns the instance with that pod, or ordinal; nil when there is none.
func (c *cluster) named(name string) *instance {
	for i := range c.instances {
		if in := &c.instances[i]; in.name == name || in.name[strings.LastIndexByte(in.name, '-')+1:] == name {
			return in
		}
	}
	return nil
}

// successor is the instance that could best take over: ready, with an agent that answers, on a node that it may stay on, of the
// present template, with the lowest number, below limit.
func (c *cluster) successor(limit int) *instance {
	candidates := slices.DeleteFunc(c.running(), func(i *instance) bool {
		return !i.ready() || i.fenced || i.ordinal >= limit || !i.labelled(databasev1alpha1.LabelRoleReplica)
	})
	if len(candidates) == 0 {
		return nil
	}
	return slices.MinFunc(candidates, func(a, b *instance) int {
		return cmp.Or(compareBool(a.unreachable, b.unreachable), compareBool(a.onClosedNode, b.onClosedNode), compareBool(a.outdated, b.outdated), compareBool(a.needsRestart(), b.needsRestart()), cmp.Compare(a.ordinal, b.ordinal))
	})
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// namedPods reads an annotation with the names of pods.
func namedPods(pg *databasev1alpha1.PostgreSQL, annotation string) func(name string) bool {
	var names []string
	for name := range strings.SplitSeq(pg.Annotations[annotation], ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return func(name string) bool { return slices.Contains(names, name) }
}

// fencedPods reads the annotation that stops instances.
func fencedPods(pg *databasev1alpha1.PostgreSQL) func(name string) bool {
	named := namedPods(pg, databasev1alpha1.AnnotationFenced)
	return func(name string) bool { return named("*") || named(name) }
}

// assemble puts together what was read. Pods and claims of other names than the StatefulSet gives are left out.
func assemble(
	pg *databasev1alpha1.PostgreSQL, set *k8sappsv1.StatefulSet, pods []corev1.Pod, claims []corev1.PersistentVolumeClaim,
	statuses map[string]agentapi.Status, want podVersion,
) cluster {
	c := cluster{set: set, templateNotObserved: templateNotObserved(set, want)}
	c.volumes = presentVolumes(pg, &c, pods)
	c.noteOthers(pg, claims)
	count, isFenced := c.size(), fencedPods(pg)
	if !pg.Spec.Hibernated {
		count = max(count, replicas(pg))
	}
	podOf := map[int]*corev1.Pod{}
	for i := range pods {
		ordinal, ok := agentapi.Ordinal(pg.Name, pods[i].Name)
		if volumes := podVolumes(pg, &pods[i]); volumes != 0 && volumes != c.volumes {
			continue // the cache still shows a pod of other volumes, which may seem to be the primary
		}
		if ok && ordinal < maxInstances {
			podOf[ordinal] = &pods[i]
			if !formerPod(&pods[i], set) { // its volume is not this PostgreSQL's
				count = max(count, ordinal+1)
			}
		}
	}
	for ordinal := range count {
		in := instance{ordinal: ordinal, name: agentapi.Pod(pg.Name, ordinal), pod: podOf[ordinal]}
		in.fenced = isFenced(in.name)
		in.observe(statuses, want)
		if i := slices.IndexFunc(claims, func(claim corev1.PersistentVolumeClaim) bool {
			return claim.Name == agentapi.Claim(pg.Name, c.volumes, ordinal)
		}); i >= 0 {
			in.claim = &claims[i]
		}
		c.instances = append(c.instances, in)
	}
	c.orphaned = orphanedClaims(pg, c.volumes, claims, func(ordinal int) bool { return ordinal < max(len(c.instances), replicas(pg)) })
	return c
}

// noteOthers notes the claims of other volumes.
func (c *cluster) noteOthers(pg *databasev1alpha1.PostgreSQL, claims []corev1.PersistentVolumeClaim) {
	for i := range claims {
		if volumes, _, ok := parseClaim(pg, claims[i].Name); !ok || volumes == c.volumes || claims[i].DeletionTimestamp != nil {
			continue
		}
		c.otherClaims = append(c.otherClaims, claims[i].Name)
		if size := requested(&claims[i]); size.Cmp(c.otherSize) > 0 {
			c.otherSize = size
		}
	}
	slices.Sort(c.otherClaims)
}

// podVersion is what a pod has to be made from. An empty agentImage accepts every agent.
type podVersion struct{ revision, agentImage string }

// outdated reports whether a pod or a template with these annotations is of another version.
func (v podVersion) outdated(annotations map[string]string) bool {
	return v.revision != "" && annotations[annotationRevision] != v.revision ||
		v.agentImage != "" && annotations[annotationAgentImage] != v.agentImage
}

func templateNotObserved(set *k8sappsv1.StatefulSet, want podVersion) bool {
	return set != nil && want.revision != "" &&
		(want.outdated(set.Spec.Template.Annotations) || set.Status.ObservedGeneration < set.Generation)
}

// outdatedAgents counts the pods whose agent is of another image than the operator's.
func (c *cluster) outdatedAgents(own string) (count int) {
	for _, in := range c.running() {
		if in.pod.Annotations[annotationAgentImage] != own {
			count++
		}
	}
	return count
}

// observe notes what its pod and its agent tell.
func (i *instance) observe(statuses map[string]agentapi.Status, want podVersion) {
	if i.pod == nil {
		return
	}
	i.outdated = want.outdated(i.pod.Annotations)
	if status, ok := statuses[string(i.pod.UID)]; ok {
		i.status = &status
	}
	i.unreachable = i.status == nil && reachable(i.pod)
}
