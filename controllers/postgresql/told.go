package postgresql

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

// What the primary was told is in status.desiredHash, as "<wishes>-<versions>": the hash of all that was wished, and that of the
// versions of users' own Secrets. What holds at any time, whatever ends in between:
//
//  1. What status says was told has been told: it is written afterwards. So what ends before it is written is told again.
//  2. Each new version of a user's Secret is told, as it may have another password. Where all else is as it was and the primary
//     answers that nothing had to change, somebody has touched the Secret: that is not written anywhere. Memory has it, so it
//     is told once, and once more after a restart.
//  3. A password that was changed is told and written. A version never comes back, so one that status names is of a password
//     that the primary has, also after a change and its reverse that status has missed.
//  4. Telling the same once more writes nothing into the database: verifiers have a salt that stays (certificates.salt).
//
// Only the primary's own verifier is compared with a user's password. No digest of the password is needed beside it, in status
// or in memory: users choose weak ones, and even a slow, salted hash of those could be guessed by whoever reads status.

// objectsHash changes with all that wishes depend on, and with the primary: a new one may lack what the last one was told.
// Of passwords it has the versions alone, since status shows it.
func objectsHash(pg *databasev1alpha1.PostgreSQL, passwords map[string]password, primary *corev1.Pod) string {
	made, own := map[string]string{}, map[string]string{}
	for role, p := range passwords {
		if p.own {
			own[role] = p.version
		} else {
			made[role] = p.version
		}
	}
	return hashOf([]any{pg.Spec.DatabaseName, pg.Spec.OwnerName(), pg.Spec.Extensions, pg.Spec.Databases, pg.Spec.Roles, made, primary.UID}) + "-" + hashOf(own)
}

// ownVersionsOnly reports whether two hashes of wishes differ in versions of users' Secrets alone.
func ownVersionsOnly(a, b string) bool {
	was, _, split := strings.Cut(a, "-")
	is, _, _ := strings.Cut(b, "-")
	return split && was == is && a != b
}

// recordApplied takes down that the primary has what it was told.
func (r *Reconciler) recordApplied(pg *databasev1alpha1.PostgreSQL, in *inputs, result agentapi.Result) {
	key, recorded := client.ObjectKeyFromObject(pg), pg.Status.DesiredHash
	changed := slices.ContainsFunc(result.Items, func(item agentapi.Item) bool { return item.Changed })
	if ownVersionsOnly(recorded, in.objectsHash) && !changed {
		r.history.recordEquivalent(key, in.objectsHash, recorded)
		in.objectsHash = recorded
	}
	r.history.recordApplied(key, in.objectsHash, result.InsertLSN)
	pg.Status.DesiredHash = in.objectsHash
}
