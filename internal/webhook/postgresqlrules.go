package webhook

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/pki"
)

// parameterErrors are about single parameters, and about those that a server would not start with beside each other.
func parameterErrors(major int, pg *databasev1alpha1.PostgreSQL) (errs field.ErrorList) {
	parameters := pg.Spec.ParameterValues()
	all := []error{config.CheckParameters(major, parameters)}
	if all[0] == nil {
		all = append(all, config.CheckCombinations(major, parameters, int(pg.Spec.Bootstrap.Initdb.WALSegmentSizeMB)))
	}
	if pg.Spec.Synchronous != nil {
		all = append(all, config.CheckSynchronous(parameters))
	}
	for _, err := range all {
		if err != nil {
			errs = append(errs, field.Forbidden(field.NewPath("spec", "parameters"), err.Error()))
		}
	}
	return errs
}

// copyErrors are about a server to copy that is the PostgreSQL itself: the schema knows no namespace.
func copyErrors(pg *databasev1alpha1.PostgreSQL) (errs field.ErrorList) {
	if from := pg.Spec.Bootstrap.PgBasebackup; from != nil && pki.IsOwnHost(pg.Name, pg.Namespace, from.Host) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "bootstrap", "pgBasebackup", "host"), from.Host,
			"is this PostgreSQL itself: name the server that is to be copied"))
	}
	return errs
}

// nameErrors are about names of databases and roles that every client would have to quote. A copy has the names that it has.
func nameErrors(pg *databasev1alpha1.PostgreSQL) (errs field.ErrorList) {
	if pg.Spec.Bootstrap.Copies() {
		return nil
	}
	check := func(path *field.Path, name databasev1alpha1.Identifier) {
		if config.IsReservedWord(string(name)) {
			errs = append(errs, field.Invalid(path, string(name), "is a word of SQL that every client would have to quote: choose another name"))
		}
	}
	spec := field.NewPath("spec")
	check(spec.Child("databaseName"), pg.Spec.DatabaseName)
	if pg.Spec.Owner.Name != "" {
		check(spec.Child("owner", "name"), pg.Spec.Owner.Name)
	}
	for i := range pg.Spec.Databases {
		check(spec.Child("databases").Index(i).Child("name"), pg.Spec.Databases[i].Name)
	}
	for i := range pg.Spec.Roles {
		check(spec.Child("roles").Index(i).Child("name"), pg.Spec.Roles[i].Name)
	}
	return errs
}

// memberErrors are about memberships in roles that nobody makes, that the version does not have, or that lead back to the role.
func memberErrors(major int, pg *databasev1alpha1.PostgreSQL) (errs field.ErrorList) {
	parents := map[string][]databasev1alpha1.ParentRole{string(pg.Spec.OwnerName()): nil}
	if pg.Spec.Bootstrap.Copies() {
		for i := range pg.Spec.Roles { // the server or backup that was copied may have had them
			for _, parent := range pg.Spec.Roles[i].InRoles {
				parents[string(parent)] = nil
			}
		}
	}
	for i := range pg.Spec.Roles {
		parents[string(pg.Spec.Roles[i].Name)] = pg.Spec.Roles[i].InRoles
	}
	for i := range pg.Spec.Roles {
		role := &pg.Spec.Roles[i]
		for j, parent := range role.InRoles {
			if why := membership(major, parents, string(role.Name), string(parent)); why != "" {
				path := field.NewPath("spec", "roles").Index(i).Child("inRoles").Index(j)
				errs = append(errs, field.Invalid(path, string(parent), fmt.Sprintf("role %s %s", role.Name, why)))
			}
		}
	}
	return errs
}

// membership says what is wrong with making a role a member of a parent; "" where nothing is.
func membership(major int, parents map[string][]databasev1alpha1.ParentRole, role, parent string) string {
	_, made := parents[parent]
	switch since := config.PredefinedRoleSince(parent); {
	case strings.HasPrefix(parent, "pg_") && major < since:
		return fmt.Sprintf("can't be in %s: PostgreSQL has it from version %d on", parent, since)
	case strings.HasPrefix(parent, "pg_"):
		return ""
	case !made:
		return fmt.Sprintf("can't be in %s, which is none of spec.roles: add it there, with login: false if it only groups others", parent)
	case leadsTo(parents, parent, role):
		return fmt.Sprintf("can't be in %s, which is itself in %s: leave one of the memberships out", parent, role)
	}
	return ""
}

// leadsTo reports whether from is the role, or is in it, also through others.
func leadsTo(parents map[string][]databasev1alpha1.ParentRole, from, role string) bool {
	seen, next := map[string]bool{}, []string{from}
	for len(next) > 0 {
		at := next[0]
		next = next[1:]
		if at == role {
			return true
		}
		if seen[at] {
			continue
		}
		seen[at] = true
		for _, parent := range parents[at] {
			next = append(next, string(parent))
		}
	}
	return false
}

// annotationErrors are about annotations that name no instance, and whose value is another one than before: one that was right
// stays when instances are taken away.
func annotationErrors(pg *databasev1alpha1.PostgreSQL, before map[string]string) (errs field.ErrorList) {
	for _, annotation := range []struct{ key, also string }{
		{databasev1alpha1.AnnotationSwitchover, "any"}, {databasev1alpha1.AnnotationFenced, "*"}, {databasev1alpha1.AnnotationReclone, ""},
		{databasev1alpha1.AnnotationAcceptDataLoss, ""},
	} {
		value := pg.Annotations[annotation.key]
		if value == "" || value == before[annotation.key] {
			continue
		}
		names := []string{value}
		list := annotation.key == databasev1alpha1.AnnotationFenced || annotation.key == databasev1alpha1.AnnotationReclone
		if list {
			names = strings.Split(value, ",")
		}
		for _, name := range names {
			if list {
				name = strings.TrimSpace(name)
			}
			if name == "" || name == annotation.also || instanceOf(pg, name, annotation.key) {
				continue
			}
			path := field.NewPath("metadata", "annotations").Key(annotation.key)
			errs = append(errs, field.Invalid(path, value, fmt.Sprintf("%q is no instance: there are %s", name, instancesOf(pg, annotation.also))))
		}
	}
	return errs
}

// instanceOf reports whether pg has an instance whose pod has the name; where a primary is asked for, its number will do.
func instanceOf(pg *databasev1alpha1.PostgreSQL, name, annotation string) bool {
	for ordinal := range instanceCount(pg) {
		pod := agentapi.Pod(pg.Name, ordinal)
		if name == pod || annotation == databasev1alpha1.AnnotationSwitchover && name == fmt.Sprint(ordinal) {
			return true
		}
	}
	return false
}

func instancesOf(pg *databasev1alpha1.PostgreSQL, also string) string {
	var names []string
	for ordinal := range instanceCount(pg) {
		names = append(names, agentapi.Pod(pg.Name, ordinal))
	}
	if also != "" {
		names = append(names, fmt.Sprintf("%q", also))
	}
	return strings.Join(names, ", ")
}

func instanceCount(pg *databasev1alpha1.PostgreSQL) int {
	if pg.Spec.Replicas == nil {
		return 1
	}
	return int(*pg.Spec.Replicas)
}
