package webhook

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
)

func TestParametersOfAPostgreSQL(t *testing.T) {
	with := func(version, name, value string) *databasev1alpha1.PostgreSQL {
		return &databasev1alpha1.PostgreSQL{
			ObjectMeta: metav1.ObjectMeta{Name: "demo"},
			Spec: databasev1alpha1.PostgreSQLSpec{
				Version: version, Parameters: map[string]intstr.IntOrString{name: intstr.FromString(value)},
			},
		}
	}
	v := newPostgreSQLValidator()
	for _, c := range []struct {
		pg   *databasev1alpha1.PostgreSQL
		want string // part of the refusal; empty for none
	}{
		{with("16.4", "work_mem", "64MB"), ""},
		{with("16", "archive_command", "true"), "archive_command"},
		{with("16", "no_such_parameter", "1"), "no_such_parameter"},
		{with("16", "max_connections", "many"), "max_connections"},
	} {
		_, err := v.ValidateCreate(t.Context(), c.pg)
		said := fmt.Sprint(err)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(said, c.want) || !strings.Contains(said, "spec.parameters")) {
			t.Errorf("%v: %v, want %q", c.pg.Spec.Parameters, err, c.want)
		}
	}
	old, leaving := with("16", "archive_command", "true"), with("16", "archive_command", "false")
	if _, err := v.ValidateUpdate(t.Context(), old, old.DeepCopy()); err != nil {
		t.Errorf("one that was there before, with other labels: %v", err)
	}
	if _, err := v.ValidateUpdate(t.Context(), old, leaving); err == nil {
		t.Error("another value was accepted")
	}
	leaving.DeletionTimestamp = new(metav1.Now())
	if _, err := v.ValidateUpdate(t.Context(), old, leaving); err != nil {
		t.Errorf("one that is being deleted: %v", err)
	}
}

func TestCopyOfItself(t *testing.T) {
	v := newPostgreSQLValidator()
	for host, refused := range map[string]bool{
		"demo": true, "demo.shop.svc": true, "demo-ro.shop": true, "demo-0.demo-pods.shop.svc.cluster.local": true, "other": false, "demo.elsewhere.svc": false,
	} {
		pg := &databasev1alpha1.PostgreSQL{ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: "shop"}}
		pg.Spec.Version, pg.Spec.Bootstrap.PgBasebackup = "16", &databasev1alpha1.PostgreSQLPgBasebackup{Host: host}
		_, err := v.ValidateCreate(t.Context(), pg)
		if refused != (err != nil) || refused && !strings.Contains(err.Error(), "spec.bootstrap.pgBasebackup.host") {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// wanted is a PostgreSQL demo of a spec in YAML, with annotations.
func wanted(t *testing.T, spec string, annotations map[string]string) *databasev1alpha1.PostgreSQL {
	t.Helper()
	pg := &databasev1alpha1.PostgreSQL{ObjectMeta: metav1.ObjectMeta{Name: "demo", Annotations: annotations}}
	pg.Spec.Version, pg.Spec.DatabaseName = "16", "app"
	if err := yaml.UnmarshalStrict([]byte(spec), &pg.Spec); err != nil {
		t.Fatal(err)
	}
	return pg
}

// says fails the test if an error is not what is wanted: none, or one with all words.
func says(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	if len(words) == 0 && err != nil {
		t.Errorf("%s: %v", what, err)
	}
	for _, word := range words {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v, want %q", what, err, word)
		}
	}
}

// TestBadInput holds what can't work, or would not be safe, and what the schema can't tell.
func TestBadInput(t *testing.T) {
	v := newPostgreSQLValidator()
	for spec, words := range map[string][]string{
		`{}`: nil,
		`{synchronous: {number: 1}, replicas: 2, parameters: {synchronous_commit: remote_apply}}`:                 nil,
		`{synchronous: {number: 1}, replicas: 2, parameters: {synchronous_commit: "off"}}`:                        {"spec.parameters", "synchronous_commit", "synchronous"},
		`{synchronous: {number: 1}, replicas: 2, parameters: {synchronous_commit: local}}`:                        {"spec.parameters", "synchronous_commit"},
		`{parameters: {synchronous_commit: "off"}}`:                                                               nil,
		`{parameters: {max_connections: "20", superuser_reserved_connections: "20"}}`:                             {"spec.parameters", "max_connections", "must be more than"},
		`{parameters: {max_connections: "40", superuser_reserved_connections: "20", reserved_connections: "20"}}`: {"spec.parameters", "reserved_connections"},
		`{parameters: {min_wal_size: 64MB}, bootstrap: {initdb: {walSegmentSizeMB: 64}}}`:                         {"spec.parameters", "min_wal_size", "128MB"},
		`{parameters: {min_wal_size: 128MB}, bootstrap: {initdb: {walSegmentSizeMB: 64}}}`:                        nil,
		`{databaseName: user}`: {"spec.databaseName", "quote"},
		`{databaseName: user, roles: [{name: a, inRoles: [ghost]}], bootstrap: {pgBasebackup: {host: old.example.com}}}`: nil,
		`{roles: [{name: a, inRoles: [a]}], bootstrap: {pgBasebackup: {host: old.example.com}}}`:                         {"itself"},
		`{databaseName: users}`:                                                                nil,
		`{databases: [{name: ok}, {name: order}]}`:                                             {"spec.databases[1].name", "quote"},
		`{roles: [{name: group, login: false}]}`:                                               {"spec.roles[0].name", "quote"},
		`{roles: [{name: a, inRoles: [b, app, pg_monitor]}, {name: b, login: false}]}`:         nil,
		`{roles: [{name: a, inRoles: [ghost]}]}`:                                               {"spec.roles[0].inRoles[0]", "ghost", "spec.roles"},
		`{roles: [{name: a, inRoles: [a]}]}`:                                                   {"spec.roles[0].inRoles[0]", "itself"},
		`{roles: [{name: a, inRoles: [b]}, {name: b, inRoles: [c]}, {name: c, inRoles: [a]}]}`: {"spec.roles[0].inRoles[0]", "spec.roles[1].inRoles[0]", "spec.roles[2].inRoles[0]"},
		`{roles: [{name: a, inRoles: [b, c]}, {name: b, inRoles: [c]}, {name: c}]}`:            nil,
		`{version: "13.2", roles: [{name: a, inRoles: [pg_read_all_data]}]}`:                   {"spec.roles[0].inRoles[0]", "from version 14"},
	} {
		_, err := v.ValidateCreate(t.Context(), wanted(t, spec, nil))
		says(t, spec, err, words...)
	}
}

// TestWhatWasThereBefore holds that an object which was accepted once can be changed in other ways.
func TestWhatWasThereBefore(t *testing.T) {
	v := newPostgreSQLValidator()
	for _, c := range []struct {
		name, before, after string
		words               []string
	}{
		{"a name from before", `databaseName: user`, `{databaseName: user, replicas: 2}`, nil},
		{"another name beside it", `databaseName: user`, `{databaseName: user, roles: [{name: grant}]}`, []string{"spec.roles[0].name"}},
		{"a name at another place of the list", `roles: [{name: order}]`, `roles: [{name: a}, {name: order}]`, nil},
		{"a membership from before", `roles: [{name: a, inRoles: [ghost]}]`, `{replicas: 2, roles: [{name: a, inRoles: [ghost]}]}`, nil},
		{"a role that is taken away, and has members", `roles: [{name: a, inRoles: [b]}, {name: b}]`, `roles: [{name: a, inRoles: [b]}]`, []string{"spec.roles[0].inRoles[0]"}},
		{"synchronous beside a parameter from before", `{replicas: 2, parameters: {synchronous_commit: "off"}}`,
			`{replicas: 2, synchronous: {number: 1}, parameters: {synchronous_commit: "off"}}`, []string{"synchronous_commit"}},
		{"parameters as before", `parameters: {min_wal_size: 2MB}`, `{replicas: 2, parameters: {min_wal_size: 2MB}}`, nil},
	} {
		_, err := v.ValidateUpdate(t.Context(), wanted(t, c.before, nil), wanted(t, c.after, nil))
		says(t, c.name, err, c.words...)
	}
}

// TestAnnotationsNameInstances holds that an annotation which would be ignored is refused, and that one which was right stays.
func TestAnnotationsNameInstances(t *testing.T) {
	v := newPostgreSQLValidator()
	for _, c := range []struct {
		key, value string
		refused    bool
	}{
		{databasev1alpha1.AnnotationSwitchover, "demo-1", false}, {databasev1alpha1.AnnotationSwitchover, "1", false},
		{databasev1alpha1.AnnotationSwitchover, "any", false}, {databasev1alpha1.AnnotationSwitchover, "", false},
		{databasev1alpha1.AnnotationSwitchover, "demo-2", true}, {databasev1alpha1.AnnotationSwitchover, "other-1", true},
		{databasev1alpha1.AnnotationSwitchover, "demo-0,demo-1", true}, {databasev1alpha1.AnnotationSwitchover, "*", true},
		{databasev1alpha1.AnnotationFenced, "demo-0, demo-1", false}, {databasev1alpha1.AnnotationFenced, "*", false},
		{databasev1alpha1.AnnotationFenced, "demo-0,demo-2", true}, {databasev1alpha1.AnnotationFenced, "1", true},
		{databasev1alpha1.AnnotationFenced, "any", true}, {databasev1alpha1.AnnotationReclone, "demo-1", false},
		{databasev1alpha1.AnnotationReclone, "demo", true}, {databasev1alpha1.AnnotationReclone, "*", true},
		{databasev1alpha1.AnnotationAcceptDataLoss, "demo-1", false}, {databasev1alpha1.AnnotationAcceptDataLoss, "1", true},
		{databasev1alpha1.AnnotationAcceptDataLoss, "demo-0,demo-1", true}, {databasev1alpha1.AnnotationAcceptDataLoss, "demo-2", true},
		{"example.com/note", "demo-7", false},
	} {
		words := []string{}
		if c.refused {
			words = []string{c.key, "demo-0, demo-1"}
		}
		old, pg := wanted(t, `replicas: 2`, nil), wanted(t, `replicas: 2`, map[string]string{c.key: c.value})
		_, err := v.ValidateUpdate(t.Context(), old, pg)
		says(t, c.key+"="+c.value, err, words...)
		_, err = v.ValidateCreate(t.Context(), pg)
		says(t, c.key+"="+c.value+" from the start", err, words...)
	}
	fenced := map[string]string{databasev1alpha1.AnnotationFenced: "demo-2"}
	_, err := v.ValidateUpdate(t.Context(), wanted(t, `replicas: 3`, fenced), wanted(t, `replicas: 2`, fenced))
	says(t, "one that is scaled down", err)
}

// newPostgreSQLValidator knows no policies.
func newPostgreSQLValidator() *postgreSQLValidator {
	scheme := runtime.NewScheme()
	_ = appsv1.AddToScheme(scheme)
	return &postgreSQLValidator{evaluator: &evaluator{cached: fake.NewClientBuilder().WithScheme(scheme).Build()}}
}
