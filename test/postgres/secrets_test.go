package postgres

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/postgres/scram"
	"github.com/fettle-dev/fettle/internal/testenv/testscram"
	"github.com/fettle-dev/fettle/test/canary"
)

// wantNoSecretsLeaked creates a role, rotates its password with a second login, and sets the next password, on a server
// that logs DDL. No password or verifier may be in the logs, in responses of an agent, or in an object.
// internal/postgres/sqlclient tests what other database users can see.
func (c *cluster) wantNoSecretsLeaked(t *testing.T, primary *instance) {
	t.Helper()
	const decoy = "CREATE TABLE decoy ()"
	c.parameters(map[string]intstr.IntOrString{"log_statement": intstr.FromString("ddl")})
	c.eventually("the server to log statements", timeout, func() bool { return primary.queryOnce("SHOW log_statement") == "ddl" })
	secrets := &canary.Values{}
	verifier := func(name string) string {
		password, err := scram.Generate()
		if err != nil {
			t.Fatal(err)
		}
		text := testscram.Verifier(t, password)
		secrets.Add("password "+name, password)
		secrets.Add("verifier "+name, text)
		secrets.Add("keys of verifier "+name, text[strings.LastIndex(text, "$")+1:])
		return text
	}
	role := agentapi.DesiredRole{Name: "rotated", Login: true, Verifier: verifier("1")}
	c.applyRole(t, primary, role)
	role.SecondLogin = &agentapi.DesiredLogin{Verifier: verifier("2"), Allowed: true}
	c.applyRole(t, primary, role)
	role.Verifier = verifier("3")
	c.applyRole(t, primary, role)
	primary.exec(t, decoy)
	c.eventually("the server to have logged all until then", timeout, func() bool { return strings.Contains(primary.log.text(), decoy) })
	for place, text := range c.outputs(t) {
		for _, name := range secrets.In(text) {
			t.Errorf("%s contains %s", place, name)
		}
	}
	c.parameters(nil)
	c.eventually("the default", timeout, func() bool { return primary.queryOnce("SHOW log_statement") == "none" })
}

// outputs are all outputs of agents and servers, by place, such as the log of an instance.
func (c *cluster) outputs(t *testing.T) map[string]string {
	t.Helper()
	places := map[string]string{}
	note := func(place string, what any) {
		text, err := json.Marshal(what)
		if err != nil {
			t.Fatal(err)
		}
		places[place] = string(text)
	}
	for _, i := range c.instances {
		places["the log of "+i.pod] = i.log.text()
		status, _ := i.status()
		note("what the agent of "+i.pod+" answers", status)
	}
	for _, list := range []client.ObjectList{
		&databasev1alpha1.PostgreSQLList{}, &corev1.PodList{}, &corev1.EventList{}, &eventsv1.EventList{}, &coordinationv1.LeaseList{},
	} {
		if err := c.client.List(t.Context(), list, client.InNamespace(c.namespace)); err != nil {
			t.Fatal(err)
		}
		note(fmt.Sprintf("%T", list), list)
	}
	return places
}

// applyRole applies a role through an agent.
func (c *cluster) applyRole(t *testing.T, primary *instance, role agentapi.DesiredRole) {
	t.Helper()
	operator := primary.agentClient()
	defer operator.Close()
	result, err := operator.ApplyDesired(t.Context(), agentapi.Desired{Roles: []agentapi.DesiredRole{role}})
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range result.Items {
		if item.Error != "" || !item.Changed {
			t.Fatalf("%s %s: %+v", item.Kind, item.Name, item)
		}
	}
}
