package postgresql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/scram"
)

// password of a role, and the version of the Secret that it is from.
type password struct {
	// value is that of the role, second that of its second login; "" leaves one alone.
	value, second, version string
	// own is set where the user gave it: there is no second login then.
	own bool
}

// databaseObjects are the roles, databases and extensions that the primary should have. salt is that of a login's verifier: with the
// same ones, the same passwords give the same objects.
func databaseObjects(pg *databasev1alpha1.PostgreSQL, passwords map[string]password, salt func(login string) []byte) (agentapi.Desired, error) {
	var d agentapi.Desired
	add := func(role agentapi.DesiredRole) error {
		role.SecondLogin = &agentapi.DesiredLogin{}
		if p, ok := passwords[role.Name]; ok && role.Login {
			role.SecondLogin.Allowed = !p.own
			var errs [2]error
			role.Verifier, errs[0] = verifier(p.value, salt(role.Name))
			role.SecondLogin.Verifier, errs[1] = verifier(p.second, salt(config.SecondLogin(role.Name)))
			if err := errors.Join(errs[:]...); err != nil {
				return fmt.Errorf("password of role %s: %w", role.Name, err)
			}
		}
		d.Roles = append(d.Roles, role)
		return nil
	}
	owner := string(pg.Spec.OwnerName())
	if err := add(agentapi.DesiredRole{Name: owner, Login: true}); err != nil {
		return d, err
	}
	for i := range pg.Spec.Roles {
		r := &pg.Spec.Roles[i]
		wish := agentapi.DesiredRole{Name: string(r.Name), Login: logsIn(r), CreateDB: r.CreateDB, ConnectionLimit: limit(r.ConnectionLimit)}
		wish.MemberOf = []string{}
		for _, parent := range r.InRoles {
			wish.MemberOf = append(wish.MemberOf, string(parent))
		}
		if err := add(wish); err != nil {
			return d, err
		}
	}
	d.Databases = append(d.Databases, agentapi.DesiredDatabase{Name: string(pg.Spec.DatabaseName), Owner: owner, Extensions: extensions(pg.Spec.Extensions)})
	for i := range pg.Spec.Databases {
		db := &pg.Spec.Databases[i]
		wish := agentapi.DesiredDatabase{Name: string(db.Name), Owner: string(db.Owner), Extensions: extensions(db.Extensions)}
		if wish.Owner == "" {
			wish.Owner = owner
		}
		d.Databases = append(d.Databases, wish)
	}
	return d, nil
}

// verifier of a password; "" for none.
func verifier(password string, salt []byte) (string, error) {
	if password == "" {
		return "", nil
	}
	return scram.Verifier(password, salt)
}

// limit is nil where there is none.
func limit(n *int32) *int32 {
	if n == nil || *n < 0 {
		return nil
	}
	return n
}

func extensions(names []databasev1alpha1.Extension) []agentapi.DesiredExtension {
	var out []agentapi.DesiredExtension
	for _, name := range names {
		out = append(out, agentapi.DesiredExtension{Name: string(name)})
	}
	return out
}

// rejections are what PostgreSQL did not accept, in a sentence for each.
func rejections(result agentapi.Result) string {
	var out []string
	for _, item := range result.Items {
		if item.Error != "" {
			out = append(out, fmt.Sprintf("%s %s: %s", strings.ToLower(item.Kind), item.Name, item.Error))
		}
	}
	return strings.Join(out, "; ")
}

// The primary reports the hash of what it has applied, so nothing is written down for that. What holds at any time, whatever ends in
// between:
//
//  1. What the primary reports has been applied on its timeline. A new primary reports nothing, and is sent everything.
//  2. Each new version of a user's Secret is sent once, as it may have another password.
//  3. Sending the same once more writes nothing into the database: verifiers have a salt that stays (certificates.salt).
//
// Only the primary's own verifier is compared with a user's password. No digest of the password is needed beside it: users choose
// weak ones, and even a slow, salted hash of those could be guessed by whoever reads it.

// objectsHash changes with all that databaseObjects depends on, and with the primary. Of passwords it has the versions alone.
func objectsHash(pg *databasev1alpha1.PostgreSQL, passwords map[string]password, primary *corev1.Pod) string {
	versions := map[string]string{}
	for role, p := range passwords {
		versions[role] = p.version
	}
	return hashOf([]any{pg.Spec.DatabaseName, pg.Spec.OwnerName(), pg.Spec.Extensions, pg.Spec.Databases, pg.Spec.Roles, versions, primary.UID})
}

// needsApply reports whether the primary lacks something, as far as its agent tells. One that does not answer has what was found before.
func (in *inputs) needsApply(pg *databasev1alpha1.PostgreSQL) bool {
	switch primary := in.cluster.primary(); {
	case primary == nil || in.objectsHash == "":
		return false
	case primary.status == nil:
		return !configuredBefore(pg)
	default:
		return primary.status.Applied == nil || primary.status.Applied.Hash != in.objectsHash
	}
}

// alreadyAnswered reports whether the primary has answered to the same objects before, so that they are not sent now.
func (r *Reconciler) alreadyAnswered(key client.ObjectKey, in *inputs, seen *observed) bool {
	if rejected, known := r.history.rejected(key, in.objectsHash); known {
		seen.rejected = rejected
		return true
	}
	if _, known := r.history.applied(key, in.objectsHash); known {
		seen.objectsApplied = true // the answer of its agent is from before
		return true
	}
	seen.objectsErr = r.backoff.err(key, in.objectsHash)
	return seen.objectsErr != nil
}

// applyDatabaseObjects sends databases, roles and extensions to the primary, when they or the primary have changed.
func (r *Reconciler) applyDatabaseObjects(ctx context.Context, pg *databasev1alpha1.PostgreSQL, in *inputs, seen *observed) error {
	primary, key := in.cluster.primary(), client.ObjectKeyFromObject(pg)
	if !in.needsApply(pg) {
		seen.objectsApplied = primary != nil && primary.status != nil && in.objectsHash != ""
		return nil
	}
	if r.alreadyAnswered(key, in, seen) {
		return nil
	}
	if err := r.readUserPasswords(ctx, pg, in); err != nil {
		return err
	}
	if seen.secretMissing = in.secretMissing; seen.secretMissing != "" {
		return nil
	}
	d, err := databaseObjects(pg, in.passwords, in.certificates.salt)
	if err != nil {
		return err
	}
	d.Hash = in.objectsHash
	begun := r.Clock.Now()
	result, err := in.certificates.applyDatabaseObjects(ctx, pg, primary.pod, d)
	r.backoff.record(key, in.objectsHash, err, r.Clock.Since(begun))
	if err != nil {
		seen.objectsErr = err
		return nil //nolint:nilerr // reported in status, and tried again soon
	}
	seen.objectsApplied = hasDatabase(pg, result)
	if seen.rejected = rejections(result); seen.rejected != "" {
		r.history.recordRejection(key, in.objectsHash, seen.rejected)
		return nil
	}
	r.history.recordApplied(key, in.objectsHash, result.InsertLSN)
	return nil
}

// hasDatabase reports whether the owner can use the first database, though something else may have been rejected.
func hasDatabase(pg *databasev1alpha1.PostgreSQL, result agentapi.Result) bool {
	return !slices.ContainsFunc(result.Items, func(item agentapi.Item) bool {
		return item.Error != "" && (item.Kind == agentapi.KindRole && item.Name == string(pg.Spec.OwnerName()) ||
			item.Kind == agentapi.KindDatabase && item.Name == string(pg.Spec.DatabaseName))
	})
}
