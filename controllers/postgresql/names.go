package postgresql

import (
	"fmt"
	"strings"

	"github.com/distribution/reference"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/reconciler"
)

// Labels and annotations of the children.
const (
	labelOwnerKind = reconciler.LabelOwnerKind
	labelOwnerName = reconciler.LabelOwnerName
	ownerKind      = "PostgreSQL"

	// annotationRevision, on the pod template, is the hash of the template: a pod with another one is outdated.
	annotationRevision = "fettle.dev/revision"
	// annotationAgentImage, on the pod template, is the image of the agent. The image of a container may be rewritten by admission.
	annotationAgentImage = "fettle.dev/agent-image"

	// annotationCopiedFrom, on a Secret of credentials, is the user's Secret, key and version that the password was copied from.
	annotationCopiedFrom = "fettle.dev/password-copied-from"

	// maxInstances is how many instances there can be; the agents' Role names their pods.
	maxInstances = 9
)

// Names of the children. Those that are not here have the name of the PostgreSQL.

func replicasService(pg *databasev1alpha1.PostgreSQL) string { return pg.Name + "-ro" }
func podsService(pg *databasev1alpha1.PostgreSQL) string     { return pg.Name + "-pods" }
func authoritySecret(pg *databasev1alpha1.PostgreSQL) string { return pg.Name + "-ca" }
func serverSecret(pg *databasev1alpha1.PostgreSQL) string    { return pg.Name + "-server" }
func clientSecret(pg *databasev1alpha1.PostgreSQL) string    { return pg.Name + "-replication" }
func issuedSecret(pg *databasev1alpha1.PostgreSQL) string    { return pg.Name + "-tls" }
func ownerSecret(pg *databasev1alpha1.PostgreSQL) string     { return pg.Name + "-credentials" }

// roleSecret is where the password of a role is that Fettle generates. No two roles have the same: their names have no '-'.
func roleSecret(pg *databasev1alpha1.PostgreSQL, role databasev1alpha1.Identifier) string {
	return pg.Name + "-role-" + strings.ReplaceAll(string(role), "_", "-")
}

// labels of every child. "app" is for people who select by it; Fettle does not use it.
func labels(pg *databasev1alpha1.PostgreSQL) map[string]string {
	l := reconciler.Labels(ownerKind, pg.Name, "database")
	l["app"] = pg.Name
	return l
}

// selector of the pods.
func selector(pg *databasev1alpha1.PostgreSQL) map[string]string {
	return reconciler.Selector(ownerKind, pg.Name)
}

// selectorOf selects the pods that have a role.
func selectorOf(pg *databasev1alpha1.PostgreSQL, role string) map[string]string {
	s := selector(pg)
	s[databasev1alpha1.LabelRole] = role
	return s
}

// host is the name of the primary's Service inside the cluster.
func host(pg *databasev1alpha1.PostgreSQL) string {
	return fmt.Sprintf("%s.%s.svc", pg.Name, pg.Namespace)
}

// replicas is how many instances the spec asks for, hibernated or not.
func replicas(pg *databasev1alpha1.PostgreSQL) int {
	if pg.Spec.Replicas == nil {
		return 1
	}
	return int(*pg.Spec.Replicas)
}

// user is the number of the user postgres of the image: the variants on Alpine have another one than those on Debian.
func user(pg *databasev1alpha1.PostgreSQL) int64 {
	named, err := reference.ParseNormalizedNamed(pg.Spec.EffectiveImage())
	if tagged, ok := named.(reference.Tagged); err == nil && ok && strings.Contains(tagged.Tag(), "alpine") {
		return 70
	}
	return 999
}
