package postgresql

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/podproblem"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

// bindTime is how long a volume may take to be made before that counts as trouble.
const bindTime = time.Minute

// fullFrom is the use of a volume, in percent, that is reported as full: PostgreSQL will soon refuse to write.
const fullFrom = 95

// growth is what becomes of the volumes.
type growth struct {
	// size is what each claim should ask for.
	size resource.Quantity
	// patch are the claims that ask for less.
	patch []*corev1.PersistentVolumeClaim
	// replaceSet is true when the StatefulSet has to be re-created, to give new PVCs the size too.
	replaceSet bool
}

// grow decides the size of the volumes: that of the spec, the largest one that there is, and a step more for each time that
// a volume fills up. It depends on no instance's health: a full volume is a reason to grow, not to wait.
func grow(pg *databasev1alpha1.PostgreSQL, c *cluster) growth {
	size := pg.Spec.Storage.DeepCopy()
	if c.otherSize.Cmp(size) > 0 {
		size = c.otherSize // the data of the former volumes have to fit
	}
	for i := range c.instances {
		if asked := requested(c.instances[i].claim); asked.Cmp(size) > 0 {
			size = asked
		}
	}
	if auto := pg.Spec.AutoGrow; auto != nil {
		needed := int64(0)
		for i := range c.instances {
			if in := &c.instances[i]; fillsUp(in, size, auto.Threshold) {
				needed = max(needed, int64(in.status.DiskTotal-in.status.DiskFree)*100/int64(auto.Threshold)+1)
			}
		}
		if needed > 0 {
			size = larger(size, auto, needed)
		}
	}
	g := growth{size: size, patch: smaller(c, size)}
	settled := c.size() == replicas(pg) || pg.Spec.Hibernated && c.size() == 0 // the new one starts with the number that is wanted
	g.replaceSet = settled && !c.switching && len(g.patch) == 0 && c.set != nil && templateSize(c) != nil && templateSize(c).Cmp(size) != 0
	return g
}

// smaller are the claims that ask for less than size.
func smaller(c *cluster, size resource.Quantity) []*corev1.PersistentVolumeClaim {
	var out []*corev1.PersistentVolumeClaim
	for i := range c.instances {
		claim := c.instances[i].claim
		if asked := requested(claim); claim != nil && claim.DeletionTimestamp == nil && asked.Cmp(size) < 0 {
			out = append(out, claim)
		}
	}
	return out
}

// fillsUp is true when an instance uses more than threshold percent of a volume that has the size it should have: one that
// is still being made larger is not made larger again.
func fillsUp(i *instance, size resource.Quantity, threshold int32) bool {
	if i.claim == nil || i.status == nil || i.status.DiskTotal == 0 {
		return false
	}
	capacity := i.claim.Status.Capacity[corev1.ResourceStorage]
	asked := requested(i.claim)
	measured := i.status.DiskTotal*100 >= uint64(max(capacity.Value(), 0))*80 // a filesystem takes some; a figure from before a growth has less
	return capacity.Cmp(asked) >= 0 && asked.Cmp(size) >= 0 && measured && used(i.status) >= int(threshold)
}

// used is how full the volume of an instance is, in percent.
func used(s *agentapi.Status) int {
	if s == nil || s.DiskTotal == 0 {
		return 0
	}
	return int((s.DiskTotal - min(s.DiskFree, s.DiskTotal)) * 100 / s.DiskTotal)
}

// larger adds as many steps as it takes to have needed bytes and at least one, and does not go beyond the greatest size: many a
// cloud makes a volume larger once in several hours, so that one small step after the other comes too late.
func larger(size resource.Quantity, auto *databasev1alpha1.PostgreSQLAutoGrow, needed int64) resource.Quantity {
	sum, step := size.DeepCopy(), stepOf(size, auto)
	if step.Sign() <= 0 {
		return size
	}
	steps := max(1, (needed-size.Value()+step.Value()-1)/step.Value())
	sum.Add(*resource.NewQuantity(steps*step.Value(), step.Format))
	if sum.Cmp(auto.Max) > 0 {
		sum = auto.Max.DeepCopy()
	}
	if sum.Cmp(size) < 0 {
		return size
	}
	return sum
}

// stepOf is by how much a volume of that size grows at a time. The schema holds the form of the step.
func stepOf(size resource.Quantity, auto *databasev1alpha1.PostgreSQLAutoGrow) resource.Quantity {
	percent, relative := strings.CutSuffix(auto.Step, "%")
	if !relative {
		step, _ := resource.ParseQuantity(auto.Step)
		return step
	}
	n, _ := strconv.ParseInt(percent, 10, 64)
	const unit = 1 << 20 // whole MiB
	return *resource.NewQuantity((size.Value()*n/100+unit-1)/unit*unit, resource.BinarySI)
}

func requested(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	if claim == nil {
		return resource.Quantity{}
	}
	return claim.Spec.Resources.Requests[corev1.ResourceStorage]
}

// templateSize is what new claims of the StatefulSet ask for; nil without a StatefulSet.
func templateSize(c *cluster) *resource.Quantity {
	if c.set == nil || len(c.set.Spec.VolumeClaimTemplates) == 0 {
		return nil
	}
	return new(c.set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage])
}

// volumesReady judges the claims.
func volumesReady(pg *databasev1alpha1.PostgreSQL, c *cluster, g growth, failed error, now time.Time) conditions.State {
	for i := range c.instances {
		in := &c.instances[i]
		if full := in.status != nil && in.status.DiskFull; full || used(in.status) >= fullFrom {
			how := "95% or more full"
			if full {
				how = "full, and PostgreSQL cannot write"
			}
			return conditions.False(databasev1alpha1.ReasonDiskFull, fmt.Sprintf("the volume of %s is %s: raise spec.storage, %s", in.name, how, growthHint(pg)))
		}
	}
	if failed != nil {
		return conditions.False(databasev1alpha1.ReasonVolumeStuck, fmt.Sprintf("the volumes cannot be resized: %s; %s", failed, growthAdvice(failed)))
	}
	if c.volumesBlocked != "" {
		return conditions.False(databasev1alpha1.ReasonVolumesUnknown, c.volumesBlocked)
	}
	if len(c.orphaned) > 0 {
		return conditions.False(databasev1alpha1.ReasonOrphanedVolumes, orphanedVolumes(pg, c.orphaned))
	}
	for i := range c.instances {
		if v := claimState(&c.instances[i], g, now); v != nil {
			return *v
		}
	}
	return conditions.True(databasev1alpha1.ReasonVolumesReady, "all volumes are bound and have the requested size"+copiedNothing(pg, c)+keptVolumes(c))
}

// orphanedVolumes says what to do about PVCs that no instance uses, and that one may have used as the last primary.
func orphanedVolumes(pg *databasev1alpha1.PostgreSQL, names []string) string {
	list := strings.Join(names, " ")
	return fmt.Sprintf("no instance uses these PVCs of a deleted PostgreSQL of this name: %s. If the last primary used one of them, raise spec.replicas at once: "+
		"its data are lost when that instance joins after new data was written. Otherwise delete them, or keep them and clear this message: "+
		"kubectl -n %s annotate pvc %s %s-", list, pg.Namespace, list, databasev1alpha1.AnnotationUnusedBy)
}

func growthHint(pg *databasev1alpha1.PostgreSQL) string {
	if pg.Spec.AutoGrow == nil {
		return "or set spec.autoGrow"
	}
	return "or spec.autoGrow.max"
}

// claimState says what is wrong with one claim; nil when nothing is.
func claimState(i *instance, g growth, now time.Time) *conditions.State {
	say := func(reason, format string, args ...any) *conditions.State {
		return new(conditions.False(reason, fmt.Sprintf(format, args...)))
	}
	claim := i.claim
	switch {
	case claim == nil:
		return nil // made with the pod
	case claim.Status.Phase == corev1.ClaimLost:
		return say(databasev1alpha1.ReasonVolumeNotBound, "PVC %s lost its volume: restore the volume, or delete the PVC and pod %s to reclone the instance", claim.Name, i.name)
	case claim.Status.Phase != corev1.ClaimBound && !volumeHolds(i):
		return new(conditions.Unknown(databasev1alpha1.ReasonCreating, "PVC "+claim.Name+" gets its volume when pod "+i.name+" is scheduled"))
	case claim.Status.Phase != corev1.ClaimBound && now.Sub(claim.CreationTimestamp.Time) < bindTime:
		return new(conditions.Unknown(databasev1alpha1.ReasonCreating, "the volume of "+i.name+" is being provisioned"))
	case claim.Status.Phase != corev1.ClaimBound:
		return say(databasev1alpha1.ReasonVolumeNotBound, "PVC %s has no volume yet: see kubectl describe pvc %s; %s", claim.Name, claim.Name, classAdvice(claim))
	}
	if why := resizeError(claim); why != "" {
		return say(databasev1alpha1.ReasonVolumeStuck, "PVC %s cannot be resized: %s", claim.Name, why)
	}
	if capacity := claim.Status.Capacity[corev1.ResourceStorage]; capacity.Cmp(g.size) < 0 {
		return say(databasev1alpha1.ReasonVolumeGrowing, "the volume of %s is being resized to %s", i.name, g.size.String())
	}
	return nil
}

// copiedNothing adds that the data are those of an earlier PostgreSQL of this name, where the spec asks for a copy of another server or
// a restored backup.
func copiedNothing(pg *databasev1alpha1.PostgreSQL, c *cluster) string {
	field := "pgBasebackup copied"
	if pg.Spec.Bootstrap.Recovery != nil {
		field = "recovery restored"
	}
	if !pg.Spec.Bootstrap.Copies() || !slices.ContainsFunc(c.instances, func(i instance) bool {
		return i.claim != nil && i.claim.CreationTimestamp.Before(&pg.CreationTimestamp)
	}) {
		return ""
	}
	return "; they hold the data of an earlier PostgreSQL of this name, so spec.bootstrap." + field + " nothing. For a new copy, delete this PostgreSQL and its PVCs"
}

// growthAdvice says what to do where the API server refuses a larger claim. Kubernetes answers 403 to all of these, and nothing but
// its words tells a quota from a StorageClass.
func growthAdvice(refused error) string {
	if strings.Contains(refused.Error(), "exceeded quota") {
		return "raise the ResourceQuota, or lower spec.storage or spec.autoGrow.max"
	}
	return "their StorageClass needs allowVolumeExpansion: true"
}

// classAdvice tells of the class that the claim asks for: one that an earlier PostgreSQL of the name left behind keeps its own.
func classAdvice(claim *corev1.PersistentVolumeClaim) string {
	if class := claim.Spec.StorageClassName; class != nil && *class != "" {
		return fmt.Sprintf("it asks for StorageClass %q: if that is not the one of spec.storageClassName, delete the PVC and its pod", *class)
	}
	return "check spec.storageClassName"
}

// volumeHolds reports whether the claim itself may be what an instance waits for: many a class makes the volume when a pod is
// scheduled, and what keeps the pod from that is not the volume's trouble.
func volumeHolds(i *instance) bool {
	if i.pod == nil {
		return false
	}
	c := podproblem.Condition(i.pod, corev1.PodScheduled)
	if c == nil || c.Reason != corev1.PodReasonUnschedulable {
		return true
	}
	said := strings.ToLower(c.Message)
	return strings.Contains(said, "volume") || strings.Contains(said, "storageclass")
}

// resizeError is what Kubernetes says of a claim that it can't make larger.
func resizeError(claim *corev1.PersistentVolumeClaim) string {
	for _, c := range claim.Status.Conditions {
		switch c.Type {
		case corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError:
			if c.Status == corev1.ConditionTrue {
				return c.Message
			}
		}
	}
	return ""
}
