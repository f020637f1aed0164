package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/config"
)

// TestRules checks that what is said about a role holds for both of its logins.
func TestRules(t *testing.T) {
	got := rules([]databasev1alpha1.PostgreSQLHBARule{
		{Databases: []databasev1alpha1.Identifier{"shop"}, Roles: []databasev1alpha1.Identifier{"app", "reader"}, CIDR: "10.0.0.0/8"},
		{Method: "reject"},
	})
	want := []config.Rule{
		{Databases: []string{"shop"}, Users: []string{"app", "fettle_login_app", "reader", "fettle_login_reader"}, Address: "10.0.0.0/8", Auth: config.Password},
		{Auth: config.Reject},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
