package stack

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
	"github.com/fettle-dev/fettle/internal/testenv/golden"
)

var bucket = Options{BackupDestination: &backupv1alpha1.Destination{URI: "s3://backups"}}

// TestGolden compares the child objects of each testdata/*.yaml with what they were. A difference restarts workloads when the operator is
// upgraded: keep the old form for objects that exist.
func TestGolden(t *testing.T) {
	golden.Cases(t, 4, func(t *testing.T, s *platformv1.AppStack) string {
		t.Helper()
		plan, errs := New(s, bucket, nil)
		if len(errs) > 0 {
			t.Fatal(errs.ToAggregate())
		}
		all := []any{map[string]any{"effective": plan.Effective}}
		for i := range plan.Components {
			for _, o := range plan.Components[i].Objects("uid-of-the-secret") {
				all = append(all, o)
			}
		}
		return golden.YAML(t, all)
	})
}

// single makes an AppStack with one component, and a web application that depends on it.
func single(environment platformv1.Environment, c platformv1.AppStackComponent) *platformv1.AppStack {
	s := &platformv1.AppStack{}
	s.Name, s.Namespace = "shop", "team"
	s.Spec.Environment, s.Spec.DeletionPolicy = environment, platformv1.Retain
	s.Spec.Components = []platformv1.AppStackComponent{c}
	return s
}

func raw(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }

// field reads the spec of the only child object, as JSON.
func specField(t *testing.T, plan *Plan, path ...string) string {
	t.Helper()
	value := plan.Components[0].child.Object["spec"]
	for _, p := range path {
		m, _ := value.(map[string]any)
		value = m[p]
	}
	out, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func effective(plan *Plan, name string) string {
	for _, e := range plan.Effective {
		if e.Field == name {
			return fmt.Sprintf("%s %s", e.Value, e.Source)
		}
	}
	return ""
}

// A default of the environment never shrinks a volume that exists, and a size that the user gives is used as it is.
func TestStorage_neverShrinks(t *testing.T) {
	for name, c := range map[string]struct {
		environment     platformv1.Environment
		block, existing string
		want, effective string
	}{
		"default":                 {platformv1.Staging, `{"version":"17"}`, "", `"50Gi"`, "50Gi Environment"},
		"larger exists":           {platformv1.Staging, `{"version":"17"}`, "100Gi", `"100Gi"`, "100Gi Existing"},
		"smaller exists":          {platformv1.Production, `{"version":"17"}`, "50Gi", `"100Gi"`, "100Gi Environment"},
		"explicit":                {platformv1.Production, `{"version":"17","storage":"1Gi"}`, "", `"1Gi"`, "1Gi Spec"},
		"explicit and smaller":    {platformv1.Production, `{"version":"17","storage":"1Gi"}`, "2Gi", `"1Gi"`, "1Gi Spec"}, // the API server rejects it
		"without environment":     {"", `{"version":"17","storage":"1Gi"}`, "", `"1Gi"`, ""},
		"missing, no environment": {"", `{"version":"17"}`, "", `null`, ""}, // the API server rejects it
	} {
		existing := map[string]Existing{}
		if c.existing != "" {
			existing["db"] = Existing{Storage: resource.MustParse(c.existing)}
		}
		plan, errs := New(single(c.environment, platformv1.AppStackComponent{Name: "db", PostgreSQL: raw(c.block)}), bucket, existing)
		if len(errs) > 0 {
			t.Errorf("%s: %v", name, errs)
			continue
		}
		if got := specField(t, plan, "storage"); got != c.want || effective(plan, "storage") != c.effective {
			t.Errorf("%s: %s, %q; want %s, %q", name, got, effective(plan, "storage"), c.want, c.effective)
		}
		m := &platformv1.MySQL{}
		if strings.Contains(c.block, "1Gi") {
			m.Storage = new(resource.MustParse("1Gi"))
		}
		plan, errs = New(single(c.environment, platformv1.AppStackComponent{Name: "db", MySQL: m}), bucket, existing)
		want := strings.Trim(c.want, `"`)
		if want == "null" {
			want = storageDefault
		}
		if name == "explicit and smaller" {
			if len(errs) != 1 {
				t.Errorf("%s: %v", name, errs)
			}
			continue
		}
		if len(errs) > 0 || plan.Components[0].Server.Storage.String() != want {
			t.Errorf("%s: MySQL has %v, %v, want %s", name, plan, errs, want)
		}
	}
}

// Backups by environment, what the user says, and what destinations there are: none, the operator's or the database's own.
func TestBackup_destination(t *testing.T) {
	const own = `"destination":{"uri":"s3://own"}`
	for _, c := range []struct {
		environment platformv1.Environment
		backup      string
		operator    bool
		want        string // the backup of the PostgreSQL, "error" for none
		effective   string
	}{
		{"", "", true, "null", ""},
		{platformv1.Development, "", true, "null", "false Environment"},
		{platformv1.Staging, "", false, "null", "false Environment"},
		{platformv1.Staging, "", true, `{"destination":{"uri":"s3://backups"},"enabled":true}`, "true Environment"},
		{platformv1.Production, "", true, `{"destination":{"uri":"s3://backups"},"enabled":true}`, "true Environment"},
		{platformv1.Production, "", false, "error", ""},
		{platformv1.Production, `{"enabled":true}`, false, "error", ""},
		{platformv1.Production, `{"enabled":false}`, true, `{"enabled":false}`, "false Spec"},
		{platformv1.Production, `{"enabled":false}`, false, `{"enabled":false}`, "false Spec"},
		{platformv1.Production, `{` + own + `}`, true, `{"destination":{"uri":"s3://own"},"enabled":true}`, "true Environment"},
		{platformv1.Production, `{"schedule":"@daily",` + own + `}`, false, `{"destination":{"uri":"s3://own"},"enabled":true,"schedule":"@daily"}`, "true Environment"},
		{platformv1.Development, `{"enabled":true}`, true, `{"destination":{"uri":"s3://backups"},"enabled":true}`, "true Spec"},
		{platformv1.Development, `{"enabled":true,` + own + `}`, true, `{"destination":{"uri":"s3://own"},"enabled":true}`, "true Spec"},
	} {
		block, options := `{"version":"17"}`, Options{}
		if c.backup != "" {
			block = `{"version":"17","backup":` + c.backup + `}`
		}
		if c.operator {
			options = bucket
		}
		plan, errs := New(single(c.environment, platformv1.AppStackComponent{Name: "db", PostgreSQL: raw(block)}), options, nil)
		if c.want == "error" {
			if len(errs) != 1 || errs[0].Field != "spec.components[db].postgreSQL.backup.destination" || errs[0].Detail != BackupDestinationMissing {
				t.Errorf("%+v: %v", c, errs)
			}
			continue
		}
		if len(errs) > 0 {
			t.Errorf("%+v: %v", c, errs)
			continue
		}
		if got := specField(t, plan, "backup"); got != c.want || effective(plan, "backup.enabled") != c.effective {
			t.Errorf("%+v: %s, %q", c, got, effective(plan, "backup.enabled"))
		}
	}
}

func TestBackup_ofMySQL(t *testing.T) {
	own := &backupv1alpha1.Destination{URI: "s3://own"}
	for _, c := range []struct {
		environment platformv1.Environment
		backup      *platformv1.MySQLBackup
		operator    bool
		want        string // "" for none
	}{
		{platformv1.Development, nil, true, ""},
		{platformv1.Staging, nil, false, ""},
		{platformv1.Staging, nil, true, "s3://backups"},
		{platformv1.Production, nil, false, "error"},
		{platformv1.Production, &platformv1.MySQLBackup{Enabled: new(false)}, true, ""},
		{platformv1.Development, &platformv1.MySQLBackup{Destination: own}, true, "s3://own"},
		{platformv1.Development, &platformv1.MySQLBackup{Enabled: new(true)}, true, "s3://backups"},
		{platformv1.Development, &platformv1.MySQLBackup{Enabled: new(true)}, false, "error"},
		{"", &platformv1.MySQLBackup{Destination: own, Enabled: new(false)}, true, ""},
	} {
		options := Options{}
		if c.operator {
			options = bucket
		}
		plan, errs := New(single(c.environment, platformv1.AppStackComponent{Name: "db", MySQL: &platformv1.MySQL{Backup: c.backup}}), options, nil)
		got := ""
		switch {
		case len(errs) > 0:
			got = "error"
		default:
			objects := plan.Components[0].Objects("")
			if u, ok := objects[len(objects)-1].(interface{ GetName() *string }); ok && u.GetName() != nil {
				break // the last object is no Backup
			}
			got = plan.Components[0].Server.Destination.URI
		}
		if got != c.want {
			t.Errorf("%+v: %q, want %q (%v)", c, got, c.want, errs)
		}
	}
}

func TestServers_limits(t *testing.T) {
	s := single("", platformv1.AppStackComponent{Name: "db", MySQL: &platformv1.MySQL{Storage: new(resource.MustParse("64Mi"))}})
	s.Spec.Components = append(s.Spec.Components, platformv1.AppStackComponent{Name: "cache", Cache: &platformv1.Cache{Memory: resource.MustParse("1Mi")}})
	_, errs := New(s, Options{}, map[string]Existing{"db": {Storage: resource.MustParse("1Gi")}})
	if text := fmt.Sprint(errs); len(errs) != 3 || !strings.Contains(text, "must be at least 128Mi") || !strings.Contains(text, "the volume has 1Gi") ||
		!strings.Contains(text, "spec.components[cache].cache.memory") {
		t.Error(errs)
	}
}

// Unknown fields and blocks that are no spec are errors that name their place, all at once.
func TestBlocks_strict(t *testing.T) {
	s := single("", platformv1.AppStackComponent{Name: "web", WebApp: raw(`{"image":"a","replcas":2,"probes":{"ready":{}}}`)})
	s.Spec.Components = append(s.Spec.Components,
		platformv1.AppStackComponent{Name: "db", PostgreSQL: raw(`{"version":17}`)},
		platformv1.AppStackComponent{Name: "settings", Config: raw(`{"config":{}}`)})
	_, errs := New(s, Options{}, nil)
	for _, want := range []string{
		`spec.components[web].webApp.replcas: Forbidden: unknown field`, `spec.components[web].webApp.probes.ready: Forbidden: unknown field`,
		`spec.components[db].postgreSQL: Invalid value: is not the spec of the kind`, `spec.components[settings].config.environment: Required value`,
	} {
		if !slices.ContainsFunc(errs, func(e *field.Error) bool { return strings.Contains(e.Error(), want) }) {
			t.Errorf("no error %q in %v", want, errs)
		}
	}
}

// A field that is null is one that the user left out.
func TestBlocks_null(t *testing.T) {
	s := single(platformv1.Production, platformv1.AppStackComponent{Name: "db", PostgreSQL: raw(`{"version":"17","replicas":null,"networkPolicy":null,"backup":null,"synchronous":{"number":null}}`)})
	plan, errs := New(s, bucket, nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if got := specField(t, plan, "replicas") + specField(t, plan, "synchronous", "number"); got != "31" {
		t.Errorf("replicas and number of synchronous standbys: %s", got)
	}
	if got := specField(t, plan, "networkPolicy") + specField(t, plan, "backup"); strings.Contains(got, "null") {
		t.Errorf("network policy and backup: %s", got)
	}
}

// Errors of the graph do not hide those of the blocks.
func TestNew_allErrorsAtOnce(t *testing.T) {
	s := single("", platformv1.AppStackComponent{Name: "a", WebApp: raw(`{"image":"a","replcas":2}`), DependsOn: []string{"b"}})
	s.Spec.Components[0].Connections = []platformv1.Connection{{From: "nowhere"}}
	s.Spec.Components = append(s.Spec.Components, platformv1.AppStackComponent{Name: "b", WebApp: raw(`{"image":"b"}`), DependsOn: []string{"a"}})
	_, errs := New(s, Options{}, nil)
	for _, want := range []string{`connections[0].from: Invalid value: "nowhere"`, `"a -> b -> a"`, `spec.components[a].webApp.replcas: Forbidden`} {
		if !slices.ContainsFunc(errs, func(e *field.Error) bool { return strings.Contains(e.Error(), want) }) {
			t.Errorf("no error %q in %v", want, errs)
		}
	}
}

// Two connections that set one variable are an error that names both.
func TestConnections_sameVariable(t *testing.T) {
	s := single("", platformv1.AppStackComponent{Name: "a", PostgreSQL: raw(`{"version":"17","storage":"1Gi"}`)})
	s.Spec.Components = append(s.Spec.Components,
		platformv1.AppStackComponent{Name: "b", PostgreSQL: raw(`{"version":"17","storage":"1Gi"}`)},
		platformv1.AppStackComponent{Name: "web", WebApp: raw(`{"image":"a"}`), DependsOn: []string{"a", "b"}})
	if _, errs := New(s, Options{}, nil); len(errs) == 0 || !strings.Contains(errs[0].Error(), "the connections to a and b both set this variable") {
		t.Errorf("%v", errs)
	}
	s.Spec.Components[2].Connections = []platformv1.Connection{{From: "a"}, {From: "b", Prefix: "OTHER_"}}
	if _, errs := New(s, Options{}, nil); len(errs) > 0 {
		t.Error(errs)
	}
}
