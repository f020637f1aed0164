package webhook

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
)

func TestParametersOfAPostgreSQL(t *testing.T) {
	with := func(version, name, value string) *databasev1alpha1.PostgreSQL {
		return &databasev1alpha1.PostgreSQL{
			ObjectMeta: metav1.ObjectMeta{Name: "demo"},
			Spec: databasev1alpha1.PostgreSQLSpec{
				Version: version, Parameters: map[string]databasev1alpha1.ParameterValue{name: databasev1alpha1.ParameterValue(value)},
			},
		}
	}
	v := &postgreSQLValidator{}
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
	v := &postgreSQLValidator{}
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
