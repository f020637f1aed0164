package postgresql

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/testenv/testscram"
)

// signed are the certificates of a new PostgreSQL.
func signed(t *testing.T) *certificates {
	t.Helper()
	c, err := ensureCertificates(wanting(1), nil, nil, nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return &c
}

// TestSalts holds that the same passwords are the same wishes, and that a salt is of one login of one PostgreSQL.
func TestSalts(t *testing.T) {
	c, other := signed(t), signed(t)
	pg, passwords := wanting(1), map[string]password{"app": {value: "a", second: "a"}}
	pg.Spec.DatabaseName = "app"
	d, err := databaseObjects(pg, passwords, c.salt)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := databaseObjects(pg, passwords, c.salt); err != nil || !cmp.Equal(d, again) {
		t.Errorf("the same passwords are other wishes: %v", err)
	}
	if role := d.Roles[0]; role.Verifier == role.SecondLogin.Verifier || !testscram.Matches(role.SecondLogin.Verifier, "a") {
		t.Error("two logins have one salt")
	}
	if bytes.Equal(c.salt("app"), other.salt("app")) {
		t.Error("two PostgreSQLs have one salt")
	}
}

// TestObjectsHash_changes: what the primary has to be sent again has another hash.
func TestObjectsHash_changes(t *testing.T) {
	hash := func(own, made string, primary types.UID, roles ...databasev1alpha1.PostgreSQLRole) string {
		pg, pod := wanting(1), &corev1.Pod{}
		pg.Spec.Roles, pod.UID = roles, primary
		return objectsHash(pg, map[string]password{"own": {version: own, own: true}, "app": {version: made}}, pod)
	}
	is := hash("2", "a", "one")
	for name, c := range map[string]struct {
		was  string
		same bool
	}{
		"the same":                                {hash("2", "a", "one"), true},
		"another version of a user's Secret":      {hash("1", "a", "one"), false},
		"another version of a Secret of Fettle's": {hash("2", "b", "one"), false},
		"another primary":                         {hash("2", "a", "two"), false},
		"another role":                            {hash("2", "a", "one", databasev1alpha1.PostgreSQLRole{Name: "new"}), false},
	} {
		if (c.was == is) != c.same {
			t.Errorf("%s: the same is %v", name, c.was == is)
		}
	}
}

// TestNeedsApply_byTheReportOfThePrimary: databases and roles are sent unless the primary reports to have them. A primary whose agent does not
// answer is sent them until they were in effect once.
func TestNeedsApply_byTheReportOfThePrimary(t *testing.T) {
	has := func(hash string) *agentapi.Status {
		return &agentapi.Status{Ready: true, Applied: &agentapi.Applied{Hash: hash}}
	}
	for name, c := range map[string]struct {
		words      string
		status     *agentapi.Status
		hash       string
		configured bool
		want       bool
	}{
		"it has them":                       {"P", has("a"), "a", false, false},
		"it has others":                     {"P", has("b"), "a", true, true},
		"it has none":                       {"P", &agentapi.Status{Ready: true}, "a", true, true},
		"no primary":                        {"N", nil, "a", false, false},
		"a Secret is about to be written":   {"P", has("b"), "", true, false},
		"no answer":                         {"P", nil, "a", false, true},
		"no answer, and they are in effect": {"P", nil, "a", true, false},
	} {
		pg, in := wanting(1), &inputs{cluster: *picture(1, c.words), objectsHash: c.hash}
		in.cluster.instances[0].status = c.status
		if c.configured {
			conditions.SetState(pg, databasev1alpha1.PostgreSQLConfigured, true, conditions.True(databasev1alpha1.ReasonConfigured, ""))
		}
		if got := in.needsApply(pg); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestHasDatabase_thoughOthersAreRejected: clients are served when the first database and its owner exist.
func TestHasDatabase_thoughOthersAreRejected(t *testing.T) {
	pg := wanting(1)
	pg.Spec.DatabaseName, pg.Spec.Owner.Name = "app", "owner"
	for name, c := range map[string]struct {
		item agentapi.Item
		want bool
	}{
		"nothing":      {agentapi.Item{Kind: agentapi.KindRole, Name: "owner"}, true},
		"the owner":    {agentapi.Item{Kind: agentapi.KindRole, Name: "owner", Error: "no"}, false},
		"the database": {agentapi.Item{Kind: agentapi.KindDatabase, Name: "app", Error: "no"}, false},
		"an extension": {agentapi.Item{Kind: agentapi.KindExtension, Name: "app/postgis", Error: "no"}, true},
		"another role": {agentapi.Item{Kind: agentapi.KindRole, Name: "app", Error: "no"}, true},
	} {
		if got := hasDatabase(pg, agentapi.Result{Items: []agentapi.Item{c.item}}); got != c.want {
			t.Errorf("rejected %s: %v", name, got)
		}
	}
}
