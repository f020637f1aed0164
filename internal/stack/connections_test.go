package stack

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
	"github.com/fettle-dev/fettle/internal/reconciler"
)

// twoTeams is a stack in which orders and stock have a database each, and only orders has a cache. web calls both.
func twoTeams(environment platformv1.Environment) *platformv1.AppStack {
	web := func(name string, deps ...string) platformv1.AppStackComponent {
		return platformv1.AppStackComponent{Name: name, WebApp: raw(`{"image":"` + name + `","port":8080}`), DependsOn: deps}
	}
	s := single(environment, platformv1.AppStackComponent{Name: "orders-db", PostgreSQL: raw(`{"version":"17","storage":"1Gi"}`)})
	s.Spec.Components = append(s.Spec.Components,
		platformv1.AppStackComponent{Name: "stock-db", MySQL: &platformv1.MySQL{}},
		platformv1.AppStackComponent{Name: "cache", Cache: &platformv1.Cache{}},
		platformv1.AppStackComponent{Name: "partner", External: &platformv1.External{
			Type: platformv1.ExternalPostgreSQL, SecretRef: fettlev1.SecretKeyReference{Name: "partner-url"},
		}},
		platformv1.AppStackComponent{Name: "settings", Config: raw(`{"environment":"prod","config":{"a":"b"}}`)},
		web("orders", "orders-db", "cache"), web("stock", "stock-db"), web("web", "orders", "stock"), web("pages", "settings"), web("import", "partner"),
	)
	return s
}

// plannedComponent returns a component of a plan.
func plannedComponent(t *testing.T, plan *Plan, name string) *Component {
	t.Helper()
	i := slices.IndexFunc(plan.Components, func(c Component) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no component %s", name)
	}
	return &plan.Components[i]
}

// secretsIn returns the names of the Secrets that a spec refers to, sorted: in variables, volumes and configRefs.
func secretsIn(value any) (names []string) {
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			names = append(names, secretsIn(item)...)
		}
	case map[string]any:
		if v["kind"] == "Secret" {
			names = append(names, fmt.Sprint(v["name"]))
		}
		for key, item := range v {
			switch key {
			case "secretName":
				names = append(names, fmt.Sprint(item))
			case "secretKeyRef", "secretRef":
				ref, _ := item.(map[string]any)
				names = append(names, fmt.Sprint(ref["name"]))
			default:
				names = append(names, secretsIn(item)...)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// The pods of a web application get the credentials of what it is connected to, and of nothing else: not those of the other team, nor those
// that its own dependencies use.
func TestConnections_onlyOwnSecrets(t *testing.T) {
	for _, environment := range []platformv1.Environment{"", platformv1.Development, platformv1.Staging, platformv1.Production} {
		s := twoTeams(environment)
		s.Spec.Components = append(s.Spec.Components,
			platformv1.AppStackComponent{Name: "report", WebApp: raw(`{"image":"a"}`), DependsOn: []string{"orders-db", "stock-db"}, Connections: []platformv1.Connection{{From: "stock-db"}}},
			platformv1.AppStackComponent{Name: "later", WebApp: raw(`{"image":"a"}`), DependsOn: []string{"orders-db"}, Connections: []platformv1.Connection{}})
		plan, errs := New(s, bucket, nil)
		if len(errs) > 0 {
			t.Fatal(errs.ToAggregate())
		}
		for name, want := range map[string][]string{
			"orders": {"shop-cache-credentials", "shop-orders-db-credentials"},
			"stock":  {"shop-stock-db-credentials"},
			"web":    nil,
			"pages":  {"shop-settings-config"}, // what an AppConfig publishes of Secrets
			"import": {"partner-url"},
			"report": {"shop-stock-db-credentials"}, // it waits for the other one only
			"later":  nil,
		} {
			if got := secretsIn(plannedComponent(t, plan, name).child.Object); !slices.Equal(got, want) {
				t.Errorf("%s: %s refers to the Secrets %q, want %q", environment, name, got, want)
			}
		}
		if text := fmt.Sprint(plannedComponent(t, plan, "stock").child.Object); strings.Contains(text, "orders") || strings.Contains(text, "cache") {
			t.Errorf("%s: stock knows of orders: %s", environment, text)
		}
	}
}

// admitted returns the names of the web applications that a list of peers, as JSON has it, admits. Anything else is an error.
func admitted(t *testing.T, peers any) []string {
	t.Helper()
	text, err := json.Marshal(peers)
	if err != nil {
		t.Fatal(err)
	}
	var list []networkingv1.NetworkPolicyPeer
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, p := range list {
		if p.IPBlock != nil || p.NamespaceSelector != nil || p.PodSelector == nil || len(p.PodSelector.MatchExpressions) > 0 {
			t.Errorf("admits %+v", p)
			continue
		}
		name := p.PodSelector.MatchLabels[reconciler.LabelOwnerName]
		if !maps.Equal(p.PodSelector.MatchLabels, reconciler.Selector("WebApp", name)) {
			t.Errorf("admits the pods with %v", p.PodSelector.MatchLabels)
		}
		names = append(names, strings.TrimPrefix(name, "shop-"))
	}
	slices.Sort(names)
	return names
}

// In production each server admits the pods of its dependants, and no others.
func TestConnections_peersInProduction(t *testing.T) {
	s := twoTeams(platformv1.Production)
	s.Spec.Components = append(s.Spec.Components, platformv1.AppStackComponent{Name: "unused", Cache: &platformv1.Cache{}},
		platformv1.AppStackComponent{Name: "late", Cache: &platformv1.Cache{}, DependsOn: []string{"orders-db", "stock-db", "cache"}}, // waits, and does not connect
		platformv1.AppStackComponent{Name: "report", WebApp: raw(`{"image":"a"}`), DependsOn: []string{}, Connections: []platformv1.Connection{{From: "orders-db"}}})
	plan, errs := New(s, bucket, nil)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	from := func(name string) any {
		spec := plannedComponent(t, plan, name).child.Object["spec"].(map[string]any)
		return spec["networkPolicy"].(map[string]any)["from"]
	}
	clients := func(name string) any {
		c := plannedComponent(t, plan, name)
		if c.Server.Clients == nil || len(c.Unwanted()) != 0 {
			t.Errorf("%s admits everybody", name)
		}
		return c.Server.Clients
	}
	for name, c := range map[string]struct {
		peers any
		want  []string
	}{
		"orders-db": {from("orders-db"), []string{"orders", "report"}},
		"stock-db":  {clients("stock-db"), []string{"stock"}},
		"cache":     {clients("cache"), []string{"orders"}},
		"unused":    {clients("unused"), []string{}},
		"orders":    {from("orders"), []string{"web"}},
		"stock":     {from("stock"), []string{"web"}},
	} {
		if got := admitted(t, c.peers); !slices.Equal(got, c.want) {
			t.Errorf("%s admits %q, want %q", name, got, c.want)
		}
	}
	// The policies of caches and MySQLs have these peers: without one, no rule.
	for name, peers := range map[string]int{"cache": 1, "unused": 0} {
		if got := ingressPeers(t, plannedComponent(t, plan, name)); got != peers {
			t.Errorf("the NetworkPolicy of %s has %d peers, want %d", name, got, peers)
		}
	}
	if got := ingressPeers(t, plannedComponent(t, plan, "stock-db")); got < 1 {
		t.Errorf("the NetworkPolicy of a MySQL has %d peers", got)
	}
}

// ingressPeers is the number of peers in the only NetworkPolicy of a server; it fails the test for none, and for a rule without peers.
func ingressPeers(t *testing.T, c *Component) int {
	t.Helper()
	for _, o := range c.Objects("") {
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		policy := networkingv1.NetworkPolicy{}
		if err := json.Unmarshal(text, &policy); err != nil || policy.Kind != "NetworkPolicy" {
			continue
		}
		peers := 0
		for _, rule := range policy.Spec.Ingress {
			if len(rule.From) == 0 {
				t.Errorf("%s: a rule admits everybody", c.Name)
			}
			peers += len(rule.From)
		}
		if len(policy.Spec.PolicyTypes) == 0 || policy.Spec.PodSelector.MatchLabels[LabelComponent] != c.Name {
			t.Errorf("%s: policy %+v", c.Name, policy.Spec)
		}
		return peers
	}
	t.Errorf("%s has no NetworkPolicy", c.Name)
	return 0
}

// Without an environment, and in others than production, there are no policies that the user did not ask for.
func TestConnections_noPeersOtherwise(t *testing.T) {
	for _, environment := range []platformv1.Environment{"", platformv1.Development, platformv1.Staging} {
		plan, errs := New(twoTeams(environment), bucket, nil)
		if len(errs) > 0 {
			t.Fatal(errs.ToAggregate())
		}
		for i := range plan.Components {
			c := &plan.Components[i]
			if c.Server.Clients != nil || c.child != nil && has(c.child.Object["spec"].(map[string]any), "networkPolicy") {
				t.Errorf("%s: %s has a NetworkPolicy", environment, c.Name)
			}
		}
	}
}

// words are the names of fields and values that random blocks are made of: fields that the planner reads or writes, and others.
var words = []string{
	"image", "replicas", "resources", "env", "envFrom", "configRefs", "volumes", "volumeMounts", "networkPolicy", "from", "securityProfile", "monitoring",
	"ingress", "gateway", "service", "type", "port", "autoscaling", "minReplicas", "inheritedMetadata", "labels", "annotations", "name", "value", "kind", "prefix",
	"version", "storage", "backup", "enabled", "destination", "uri", "synchronous", "number", "deletionPolicy", "config", "application", "environment", "target", "secret",
	"1Gi", "", "s3://own", "Restricted", "DATABASE_URL", "connection-db", "Delete", "dev", "app.kubernetes.io/part-of", "Secret", "shop-db-credentials", "host",
}

func word(rng *rand.Rand) string { return words[rng.IntN(len(words))] }

// randomValue is a JSON value without null, which the API server removes from fields that it knows.
func randomValue(rng *rand.Rand, depth int) any {
	switch n := rng.IntN(8); {
	case n < 3 && depth > 0:
		m := map[string]any{}
		for range rng.IntN(4) {
			m[word(rng)] = randomValue(rng, depth-1)
		}
		return m
	case n < 4 && depth > 0:
		list := make([]any, rng.IntN(3))
		for i := range list {
			list[i] = randomValue(rng, depth-1)
		}
		return list
	case n < 6:
		return word(rng)
	case n < 7:
		return rng.IntN(70000) - 100
	}
	return rng.IntN(2) == 0
}

// parts of blocks that the kinds accept.
var parts = map[string][]string{
	KindWebApp: {
		`"image":"a"`, `"replicas":4`, `"replicas":0`, `"resources":{}`, `"resources":{"limits":{"cpu":"2"}}`, `"port":8080`, `"service":{"port":81}`,
		`"securityProfile":"Baseline"`, `"networkPolicy":{"from":[]}`, `"networkPolicy":{"enabled":false}`, `"monitoring":{}`, `"ingress":{"host":"a.example.com"}`,
		`"env":[{"name":"DATABASE_URL","value":"mine"},{"name":"A","value":"$(DATABASE_URL)"}]`, `"envFrom":[]`, `"configRefs":[{"kind":"Secret","name":"shop-c0-credentials"}]`,
		`"volumes":[{"name":"connection-c0","emptyDir":{}}]`, `"volumeMounts":[]`, `"inheritedMetadata":{"labels":{"app.kubernetes.io/part-of":"mine"}}`,
		`"autoscaling":{"minReplicas":1,"maxReplicas":3}`, `"service":{"type":"LoadBalancer"}`,
	},
	KindPostgreSQL: {
		`"version":"17"`, `"storage":"3Gi"`, `"storage":"200Gi"`, `"replicas":5`, `"replicas":1`, `"synchronous":{}`, `"synchronous":{"number":2}`, `"backup":{}`, `"backup":{"enabled":false}`,
		`"backup":{"enabled":true}`, `"backup":{"destination":{"uri":"s3://own"}}`, `"deletionPolicy":"Delete"`, `"networkPolicy":{"from":[{"podSelector":{}}]}`, `"inheritedMetadata":{"annotations":{"a":"b"}}`,
	},
	KindAppConfig: {
		`"config":{"a":"b"}`, `"environment":"dev"`, `"application":"mine"`, `"target":{"name":"settings"}`, `"environment":"prod"`,
	},
}

// randomBlock is the spec of a kind: mostly one that it accepts, otherwise any object, or no object at all.
func randomBlock(rng *rand.Rand, kind string) *runtime.RawExtension {
	switch n := rng.IntN(40); {
	case n == 0:
		return raw([]string{``, `[]`, `7`, `"text"`, `{`, `{"image":"a"}}`, `{"image":"a","image":"b"}`, "\xff"}[rng.IntN(8)])
	case n < 4:
		return rawOf(map[string]any{word(rng): randomValue(rng, 3), word(rng): randomValue(rng, 3)})
	}
	fields := map[string]string{} // by name, so that none is there twice
	for range rng.IntN(7) {
		part := parts[kind][rng.IntN(len(parts[kind]))]
		name, _, _ := strings.Cut(part, ":")
		fields[name] = part
	}
	if name := `"` + word(rng) + `"`; rng.IntN(20) == 0 {
		fields[name] = name + ":" + string(rawOf(randomValue(rng, 2)).Raw)
	}
	return raw("{" + strings.Join(slices.Sorted(maps.Values(fields)), ",") + "}")
}

func rawOf(value any) *runtime.RawExtension {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return &runtime.RawExtension{Raw: text}
}

var kinds = []string{KindWebApp, KindWebApp, KindPostgreSQL, KindMySQL, KindCache, KindAppConfig, KindExternal}

// randomStack has a random subset of the kinds. Each component depends on earlier ones, except where that would be a cycle by chance.
func randomStack(rng *rand.Rand) (s *platformv1.AppStack, existing map[string]Existing) {
	environments := []platformv1.Environment{"", platformv1.Development, platformv1.Staging, platformv1.Production}
	s, existing = single(environments[rng.IntN(4)], platformv1.AppStackComponent{}), map[string]Existing{}
	s.Spec.Components = nil
	if rng.IntN(4) == 0 {
		s.Spec.InheritedMetadata = &fettlev1.InheritedMetadata{Labels: map[string]string{"platform": "p"}, Annotations: map[string]string{"a": "inherited"}}
	}
	for i := range 1 + rng.IntN(6) {
		c := platformv1.AppStackComponent{Name: fmt.Sprintf("c%d", i), Suspended: rng.IntN(20) == 0}
		fillBlock(rng, &c)
		if rng.IntN(4) == 0 {
			existing[c.Name] = Existing{Storage: resource.MustParse([]string{"1Gi", "75Gi", "300Gi"}[rng.IntN(3)])}
		}
		for j := range i {
			switch rng.IntN(5) {
			case 0:
				c.DependsOn = append(c.DependsOn, fmt.Sprintf("c%d", j))
			case 1:
				c.Connections = append(c.Connections, platformv1.Connection{From: fmt.Sprintf("c%d", j), Prefix: []string{"", fmt.Sprintf("P%d_", j)}[rng.IntN(2)]})
			}
		}
		if rng.IntN(100) == 0 {
			c.DependsOn = append(c.DependsOn, fmt.Sprintf("c%d", rng.IntN(7)))
		}
		s.Spec.Components = append(s.Spec.Components, c)
	}
	rng.Shuffle(len(s.Spec.Components), func(i, j int) {
		s.Spec.Components[i], s.Spec.Components[j] = s.Spec.Components[j], s.Spec.Components[i]
	})
	return s, existing
}

// fillBlock gives a component the block of a random kind.
func fillBlock(rng *rand.Rand, c *platformv1.AppStackComponent) {
	switch kind := kinds[rng.IntN(len(kinds))]; kind {
	case KindWebApp:
		c.WebApp = randomBlock(rng, kind)
	case KindPostgreSQL:
		c.PostgreSQL = randomBlock(rng, kind)
	case KindAppConfig:
		c.Config = randomBlock(rng, kind)
	case KindMySQL:
		c.MySQL = &platformv1.MySQL{}
		if rng.IntN(2) == 0 {
			c.MySQL.Storage = new(resource.MustParse([]string{"64Mi", "2Gi", "80Gi"}[rng.IntN(3)]))
		}
		if rng.IntN(3) == 0 {
			c.MySQL.Backup = &platformv1.MySQLBackup{Enabled: []*bool{nil, new(false), new(true)}[rng.IntN(3)], Retention: "7d"}
		}
	case KindCache:
		c.Cache = &platformv1.Cache{Type: platformv1.Redis}
	case KindExternal:
		c.External = &platformv1.External{Type: platformv1.ExternalMySQL, SecretRef: fettlev1.SecretKeyReference{Name: "outside"}}
	}
}

// planText is all that a plan and its errors say.
func planText(t *testing.T, plan *Plan, errs field.ErrorList) string {
	t.Helper()
	all := []any{fmt.Sprint(errs)}
	if plan != nil {
		all = append(all, plan.Effective)
		for i := range plan.Components {
			c := &plan.Components[i]
			all = append(all, c.Name, c.Kind, c.Ref, c.DependsOn, c.Objects("version"), len(c.Unwanted()))
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Whatever a stack contains, New does not panic, has the same result for the same stack, and changes no part of it.
func TestNew_deterministic(t *testing.T) {
	rng := rand.New(rand.NewPCG(54, 1))
	planned := 0
	for range 2000 {
		s, existing := randomStack(rng)
		before := s.DeepCopy()
		plan, errs := New(s, bucket, existing)
		text := planText(t, plan, errs)
		if (plan == nil) != (len(errs) > 0) {
			t.Fatalf("plan %v with errors %v", plan, errs)
		}
		if again, more := New(s.DeepCopy(), bucket, existing); planText(t, again, more) != text {
			t.Fatalf("another result for the same stack:\n%s", cmp.Diff(text, planText(t, again, more)))
		}
		if !reflect.DeepEqual(before, s) {
			t.Fatalf("the stack was changed:\n%s", cmp.Diff(before, s))
		}
		if plan != nil {
			planned++
		}
	}
	t.Logf("%d of 2000 stacks have a plan", planned)
	if planned < 400 || planned > 1600 {
		t.Errorf("%d of 2000 stacks have a plan: the others test nothing", planned)
	}
}

// An environment fills only fields that the user left out. What connections add to a list comes before the user's items.
func TestNew_environmentKeepsUserFields(t *testing.T) {
	rng := rand.New(rand.NewPCG(54, 2))
	compared := 0
	for range 2000 {
		s, existing := randomStack(rng)
		plan, errs := New(s, bucket, existing)
		if len(errs) > 0 {
			continue
		}
		for i := range s.Spec.Components {
			c := &s.Spec.Components[i]
			block := cmpBlock(c)
			if block == nil {
				continue
			}
			own := map[string]any{}
			if err := json.Unmarshal(block.Raw, &own); err != nil {
				t.Fatal(err)
			}
			result := map[string]any{}
			spec := plannedComponent(t, plan, c.Name).child.Object["spec"]
			if err := json.Unmarshal(rawOf(spec).Raw, &result); err != nil {
				t.Fatal(err)
			}
			if lost := lostField(own, result); lost != "" {
				t.Fatalf("%s: %s of %s was changed:\n%s\n%s", s.Spec.Environment, lost, c.Name, block.Raw, rawOf(spec).Raw)
			}
			compared++
		}
	}
	if compared < 500 {
		t.Errorf("only %d blocks were compared", compared)
	}
}

// cmpBlock is the block of a component that has the spec of a kind; nil if it has none.
func cmpBlock(c *platformv1.AppStackComponent) *runtime.RawExtension {
	for _, block := range []*runtime.RawExtension{c.WebApp, c.PostgreSQL, c.Config} {
		if block != nil {
			return block
		}
	}
	return nil
}

// lists are those that connections add to.
var lists = []string{"env", "envFrom", "configRefs", "volumes", "volumeMounts"}

// lostField returns the path of a field of own that result does not have with the same value; "" for none. One of lists may be longer in
// result, at its beginning.
func lostField(own, result any, path ...string) string {
	if o, ok := own.(map[string]any); ok {
		r, ok := result.(map[string]any)
		for key, value := range o {
			if lost := lostField(value, r[key], append(path, key)...); lost != "" {
				return lost
			}
		}
		if ok {
			return ""
		}
	}
	if o, ok := own.([]any); ok && len(path) == 1 && slices.Contains(lists, path[0]) {
		r, _ := result.([]any)
		result = r[max(0, len(r)-len(o)):]
	}
	if !reflect.DeepEqual(own, result) {
		return "." + strings.Join(path, ".")
	}
	return ""
}
