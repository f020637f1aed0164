package postgresql

import (
	"errors"
	"fmt"
	"strings"

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
// same ones, the same passwords make the same wishes.
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
