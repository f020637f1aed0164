package stack

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	sigsjson "sigs.k8s.io/json"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
	"github.com/fettle-dev/fettle/internal/podtemplate"
)

// decode returns the spec in raw, twice: into typed, and as a map with only the fields that the user set. Unknown fields are errors that
// name them.
func (p *planner) decode(at *field.Path, raw *runtime.RawExtension, typed any) map[string]any {
	strict, err := sigsjson.UnmarshalStrict(raw.Raw, typed)
	for _, err := range strict {
		p.errs = append(p.errs, podtemplate.StrictError(at, err, "the kind has no such field, or it is there twice; check its spelling and place"))
	}
	spec := map[string]any{}
	if err == nil {
		err = sigsjson.UnmarshalCaseSensitivePreserveInts(raw.Raw, &spec)
	}
	if err != nil {
		p.errs = append(p.errs, field.Invalid(at, field.OmitValueType{}, fmt.Sprintf("is not the spec of the kind: %v", err)))
	}
	return dropNulls(spec)
}

// dropNulls removes fields that are null, as the API server does: the user left them out. An empty value of a Helm template is one.
func dropNulls(m map[string]any) map[string]any {
	out := make(map[string]any, len(m))
	for key, value := range m {
		switch value := value.(type) {
		case nil:
		case map[string]any:
			out[key] = dropNulls(value)
		default:
			out[key] = value
		}
	}
	return out
}

// postgreSQL returns the PostgreSQL of a component.
func (p *planner) postgreSQL(at *field.Path, c *platformv1.AppStackComponent) *unstructured.Unstructured {
	var typed databasev1alpha1.PostgreSQLSpec
	spec := p.decode(at, c.PostgreSQL, &typed)
	if !has(spec, "deletionPolicy") {
		set(spec, string(p.stack.Spec.DeletionPolicy), "deletionPolicy")
	}
	d := p.defaultsOf(c.Name)
	d.storage(spec, typed.Storage, has(spec, "storage"))
	d.fill(spec, int64(p.preset().instances), "replicas")
	instances, _, _ := unstructured.NestedInt64(spec, "replicas")
	if p.stack.Spec.Environment == platformv1.Production && (instances > 1 || has(spec, "synchronous")) {
		d.fill(spec, int64(1), "synchronous", "number")
	}
	enabled, explicit, _ := unstructured.NestedBool(spec, "backup", "enabled")
	destination, source := p.destination(at.Child("backup", "destination"), backupWish{
		enabled: enabled, explicit: explicit, own: typed.Backup != nil && typed.Backup.Destination != nil,
	})
	if source == platformv1.FromOperator {
		set(spec, toMap(destination), "backup", "destination")
	}
	if !explicit && source != "" {
		set(spec, true, "backup", "enabled")
	}
	d.backup(explicit, enabled, source)
	if p.stack.Spec.Environment == platformv1.Production && !has(spec, "networkPolicy") {
		value, peers := "only dependants", p.peersOf(c.Name)
		if len(peers) == 0 { // an empty list would admit everybody
			value, peers = "only this stack", append(peers, podsWith(map[string]string{platformv1.LabelPartOf: p.stack.Name}))
		}
		set(spec, toList(peers), "networkPolicy", "from")
		d.note("networkPolicy", value, platformv1.FromEnvironment)
	}
	return p.newChild(c, postgreSQLKind, spec)
}

// appConfig returns the AppConfig of a component.
func (p *planner) appConfig(at *field.Path, c *platformv1.AppStackComponent) *unstructured.Unstructured {
	spec := p.decode(at, c.Config, &configv1.AppConfigSpec{})
	if !has(spec, "application") {
		set(spec, Ref(p.stack, c), "application")
	}
	environment, ok := map[platformv1.Environment]configv1.Environment{
		platformv1.Development: configv1.EnvironmentDev, platformv1.Staging: configv1.EnvironmentStaging, platformv1.Production: configv1.EnvironmentProd,
	}[p.stack.Spec.Environment]
	d := p.defaultsOf(c.Name)
	switch {
	case ok:
		d.fill(spec, string(environment), "environment")
	case !has(spec, "environment"):
		p.errs = append(p.errs, field.Required(at.Child("environment"), "set it here, or set spec.environment"))
	}
	return p.newChild(c, appConfigKind, spec)
}

// mySQL fills the plan of a MySQL.
func (p *planner) mySQL(at *field.Path, c *platformv1.AppStackComponent, planned *Component) {
	m := c.MySQL.DeepCopy()
	planned.MySQL, planned.Server = m, p.server(c)
	policy := m.DeletionPolicy
	if policy == "" {
		policy = p.stack.Spec.DeletionPolicy
	}
	planned.Server.Retain = policy != platformv1.Delete
	d := p.defaultsOf(c.Name)
	if m.Storage != nil {
		p.errs = append(p.errs, volumeErrors(at.Child("storage"), *m.Storage, p.existing[c.Name].Storage)...)
		planned.Server.Storage = *m.Storage
	}
	planned.Server.Storage = d.storage(map[string]any{}, planned.Server.Storage, m.Storage != nil)
	if template := p.existing[c.Name].Template; template != nil {
		size := template.Spec.Resources.Requests[corev1.ResourceStorage]
		planned.Server.LiveTemplateStorage, planned.Server.LiveTemplateMetadata = &size, &template.ObjectMeta
	}
	planned.Server.Destination = d.dumps(at.Child("backup", "destination"), m)
}

// dumps decides whether a MySQL is backed up, and where; nil for nowhere.
func (d *defaults) dumps(at *field.Path, m *platformv1.MySQL) *backupv1alpha1.Destination {
	wish := backupWish{enabled: true}
	if b := m.Backup; b != nil {
		wish.own = b.Destination != nil
		wish.explicit = b.Enabled != nil || wish.own
		wish.enabled = b.Enabled == nil || *b.Enabled
	}
	destination, source := d.destination(at, wish)
	if source == platformv1.FromSpec {
		destination = m.Backup.Destination
	}
	if wish.explicit && wish.enabled && source == "" && d.stack.Spec.Environment != platformv1.Production {
		d.errs = append(d.errs, field.Required(at, "set where the dumps are stored, or ask for a default of the operator (--backup-destination)"))
	}
	if source != "" {
		if m.Backup == nil {
			m.Backup = &platformv1.MySQLBackup{}
		}
		m.Backup.Enabled = new(true)
	}
	d.backup(wish.explicit, wish.enabled, source)
	return destination
}

// volumeErrors are about the size that the user gives a volume which has existing, zero if there is none.
func volumeErrors(at *field.Path, size, existing resource.Quantity) (errs field.ErrorList) {
	if size.Cmp(smallestVolume) < 0 {
		errs = append(errs, field.Invalid(at, size.String(), "must be at least 128Mi"))
	}
	if size.Cmp(existing) < 0 {
		errs = append(errs, field.Invalid(at, size.String(), fmt.Sprintf("the volume has %s, and a volume cannot shrink", existing.String())))
	}
	return errs
}

// Limits, which the schema of a list item cannot express.
var (
	smallestVolume = resource.MustParse("128Mi")
	smallestCache  = resource.MustParse("16Mi")
)

// cache fills the plan of a cache.
func (p *planner) cache(at *field.Path, c *platformv1.AppStackComponent, planned *Component) {
	planned.Cache, planned.Server = c.Cache, p.server(c)
	if m := c.Cache.Memory; !m.IsZero() && m.Cmp(smallestCache) < 0 {
		p.errs = append(p.errs, field.Invalid(at.Child("memory"), m.String(), "must be at least 16Mi"))
	}
}

// configMapOf returns the name of the ConfigMap that an AppConfig with this spec publishes.
func configMapOf(spec map[string]any) string {
	if name, found, _ := unstructured.NestedString(spec, "target", "name"); found && name != "" {
		return name
	}
	application, _, _ := unstructured.NestedString(spec, "application")
	return application + "-config"
}

// has reports whether the user set a field.
func has(spec map[string]any, path ...string) bool {
	_, found, err := unstructured.NestedFieldNoCopy(spec, path...)
	return found && err == nil
}

// set sets a field of a spec. It changes nothing where a parent is no object, which the API server rejects.
func set(spec map[string]any, value any, path ...string) {
	_ = unstructured.SetNestedField(spec, value, path...)
}

func toMap(v any) map[string]any {
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(v)
	if err != nil {
		panic(fmt.Errorf("encode %T: %w", v, err)) // API types always have a JSON form
	}
	return m
}

func toList(v any) []any {
	raw, err := json.Marshal(v)
	var list []any
	if err == nil {
		err = sigsjson.UnmarshalCaseSensitivePreserveInts(raw, &list)
	}
	if err != nil {
		panic(fmt.Errorf("encode %T: %w", v, err)) // API types always have a JSON form
	}
	return list
}

func anyMap(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for key, value := range m {
		out[key] = value
	}
	return out
}

// published reports whether clients outside the namespace reach a web application.
func published(spec *appsv1.WebAppSpec) bool {
	return spec.Ingress != nil || spec.Gateway != nil || spec.Service.Type == corev1.ServiceTypeLoadBalancer || spec.Service.Type == corev1.ServiceTypeNodePort
}
