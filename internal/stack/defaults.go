package stack

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
)

// preset are the defaults of an environment.
type preset struct {
	instances int    // of a PostgreSQL
	storage   string // of each instance
	pods      int    // of a WebApp
	// requests and limits of a WebApp
	requestCPU, requestMemory, limitCPU, limitMemory string
}

var presets = map[platformv1.Environment]preset{
	platformv1.Development: {instances: 1, storage: "10Gi", pods: 1, requestCPU: "50m", requestMemory: "64Mi", limitMemory: "256Mi"},
	platformv1.Staging:     {instances: 2, storage: "50Gi", pods: 2, requestCPU: "100m", requestMemory: "128Mi", limitCPU: "1", limitMemory: "512Mi"},
	platformv1.Production:  {instances: 3, storage: "100Gi", pods: 2, requestCPU: "100m", requestMemory: "128Mi", limitCPU: "1", limitMemory: "512Mi"},
}

// storageDefault is the size of a MySQL's volume without an environment.
const storageDefault = "10Gi"

func (p *planner) preset() preset { return presets[p.stack.Spec.Environment] }

// resources are those of a WebApp.
func (p preset) resources() map[string]any {
	limits := map[string]any{string(corev1.ResourceMemory): p.limitMemory}
	if p.limitCPU != "" {
		limits[string(corev1.ResourceCPU)] = p.limitCPU
	}
	return map[string]any{
		"requests": map[string]any{string(corev1.ResourceCPU): p.requestCPU, string(corev1.ResourceMemory): p.requestMemory},
		"limits":   limits,
	}
}

// defaults fills the fields of one component, and notes what is in use.
type defaults struct {
	*planner
	component string
}

func (p *planner) defaultsOf(component string) *defaults { return &defaults{p, component} }

// note adds a field to status.effective, if the stack has an environment.
func (d *defaults) note(name, value string, source platformv1.FieldSource) {
	if d.stack.Spec.Environment == "" {
		return
	}
	d.plan.Effective = append(d.plan.Effective, platformv1.EffectiveField{Component: d.component, Field: name, Value: value, Source: source})
}

// fill sets a field that the user left out to the default of the environment. Without an environment it does nothing.
func (d *defaults) fill(spec map[string]any, value any, path ...string) {
	if d.stack.Spec.Environment == "" {
		return
	}
	name := strings.Join(path, ".")
	if has(spec, path...) {
		value, _, _ := unstructured.NestedFieldNoCopy(spec, path...)
		d.note(name, fmt.Sprint(value), platformv1.FromSpec)
		return
	}
	set(spec, value, path...)
	d.note(name, fmt.Sprint(value), platformv1.FromEnvironment)
}

// storage sets the size of a database's volume. A default is never below the size that exists.
func (d *defaults) storage(spec map[string]any, own resource.Quantity, explicit bool) resource.Quantity {
	if explicit {
		d.note("storage", own.String(), platformv1.FromSpec)
		return own
	}
	size := resource.MustParse(storageDefault)
	if s := d.preset().storage; s != "" {
		size = resource.MustParse(s)
	} else if d.byName[d.component].PostgreSQL != nil {
		return own // required there, which the API server says
	}
	source := platformv1.FromEnvironment
	if existing := d.existing[d.component].Storage; existing.Cmp(size) > 0 {
		size, source = existing, platformv1.FromExisting
	}
	set(spec, size.String(), "storage")
	d.note("storage", size.String(), source)
	return size
}

// backupWish is what the user says about backups of a database.
type backupWish struct {
	enabled, explicit bool
	// own is true if the database has a destination of its own.
	own bool
}

// destination decides where a database is backed up: its source is empty if it is not backed up. destination is nil unless the operator's
// is used. In production a missing one is an error.
func (p *planner) destination(at *field.Path, wish backupWish) (*backupv1alpha1.Destination, platformv1.FieldSource) {
	environment := p.stack.Spec.Environment
	switch {
	case wish.explicit && !wish.enabled, !wish.explicit && environment != platformv1.Staging && environment != platformv1.Production:
		return nil, ""
	case wish.own:
		return nil, platformv1.FromSpec
	case p.options.BackupDestination != nil:
		return p.options.BackupDestination, platformv1.FromOperator
	case environment == platformv1.Production:
		p.errs = append(p.errs, field.Required(at, BackupDestinationMissing))
	}
	return nil, ""
}

// backup notes whether and where a database is backed up.
func (d *defaults) backup(explicit, enabled bool, destination platformv1.FieldSource) {
	switch {
	case explicit:
		d.note("backup.enabled", fmt.Sprint(enabled), platformv1.FromSpec)
	case destination != "":
		d.note("backup.enabled", "true", platformv1.FromEnvironment)
	default:
		d.note("backup.enabled", "false", platformv1.FromEnvironment)
	}
	if destination == platformv1.FromOperator {
		d.note("backup.destination", describe(d.options.BackupDestination), destination)
	}
}

// describe names a destination.
func describe(d *backupv1alpha1.Destination) string {
	if d.URI != "" {
		return d.URI
	}
	return fmt.Sprintf("%s bucket %s", d.Type, d.Bucket)
}
