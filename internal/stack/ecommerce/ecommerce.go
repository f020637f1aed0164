// Package ecommerce expands an EcommercePlatform into an AppStack. It is pure: it reads and writes nothing.
//
// It passes on only what the user set. The AppStack's own engine fills the rest from the environment and decodes the blocks of WebApps
// and PostgreSQLs strictly.
package ecommerce

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
)

// Names of the components.
const (
	database = "db"
	cache    = "cache"
	backend  = "backend"
	frontend = "frontend"
)

// Places replaces the paths of the AppStack's spec in a text by those of the EcommercePlatform's, which the user can change.
var Places = strings.NewReplacer(
	"spec.components[db].postgreSQL", "spec.database", "spec.components[db].mySQL", "spec.database",
	"spec.components[db].external.secretRef", "spec.database.externalSecretRef", "spec.components[cache].cache", "spec.cache",
	"spec.components[backend].webApp.image", "spec.backend.image", "spec.components[frontend].webApp.image", "spec.frontend.image",
	"spec.components[backend].webApp.replicas", "spec.backend.replicas", "spec.components[frontend].webApp.replicas", "spec.frontend.replicas",
	"spec.components[frontend].webApp.ingress", "spec.ingress",
	"spec.components[backend].webApp", "spec.backend.webApp", "spec.components[frontend].webApp", "spec.frontend.webApp",
)

const (
	// mySQL is the database.type of a MySQL server.
	mySQL = "mysql"
	// postgreSQLVersion is the default version of PostgreSQL, which has none of its own.
	postgreSQLVersion = "17"
)

// Stack is the spec of the AppStack of p. monitored says that the cluster has the Prometheus Operator's PodMonitor. The paths of the
// errors are those of p. The result is nil if there are errors.
func Stack(p *platformv1.EcommercePlatform, monitored bool) (*platformv1.AppStackSpec, field.ErrorList) {
	s, path := &p.Spec, field.NewPath("spec")
	inherited, errs := inheritedMetadata(p, path.Child("inheritedMetadata"))
	backendApp, backendErrs := webApp(&s.Backend, nil, path, backend)
	frontendApp, frontendErrs := webApp(&s.Frontend, s.Ingress, path, frontend)
	errs = append(append(errs, frontendErrs...), backendErrs...)
	if len(errs) > 0 {
		return nil, errs
	}
	components := []platformv1.AppStackComponent{databaseComponent(&s.Database, monitored && enabled(s.Monitoring.Enabled))}
	needed := []string{database}
	if enabled(s.Cache.Enabled) {
		components = append(components, platformv1.AppStackComponent{
			Name: cache, Cache: &platformv1.Cache{Type: s.Cache.Type, Memory: s.Cache.Memory},
		})
		needed = append(needed, cache)
	}
	return &platformv1.AppStackSpec{
		Environment: s.Environment,
		// A WebApp connects to what it depends on.
		Components: append(components,
			platformv1.AppStackComponent{Name: backend, WebApp: backendApp, DependsOn: needed},
			platformv1.AppStackComponent{Name: frontend, WebApp: frontendApp, DependsOn: []string{backend}}),
		DeletionPolicy: s.DeletionPolicy, Paused: s.Paused, InheritedMetadata: inherited,
	}, nil
}

// enabled is the value of a field that defaults to true.
func enabled(value *bool) bool { return value == nil || *value }

// inheritedMetadata is the user's, with the label of the platform, which the user may not set to something else.
func inheritedMetadata(p *platformv1.EcommercePlatform, path *field.Path) (*fettlev1.InheritedMetadata, field.ErrorList) {
	all := p.Inherited()
	if value := all.Labels[platformv1.LabelPlatform]; value != p.Name {
		return nil, field.ErrorList{field.Invalid(path.Child("labels").Key(platformv1.LabelPlatform), value,
			fmt.Sprintf("Fettle sets this label to %q, the name of the EcommercePlatform; remove it", p.Name))}
	}
	return all, nil
}

// webApp is the spec of a WebApp in JSON: the block app.webApp with the fields of the platform, which the block may not repeat. path is
// that of the platform's spec, and name the component. ingress is nil for none.
func webApp(
	app *platformv1.EcommerceApplication, ingress *platformv1.EcommerceIngress, path *field.Path, name string,
) (*runtime.RawExtension, field.ErrorList) {
	block := path.Child(name, "webApp")
	content := map[string]json.RawMessage{}
	if app.WebApp != nil && len(app.WebApp.Raw) > 0 {
		if err := json.Unmarshal(app.WebApp.Raw, &content); err != nil || content == nil {
			return nil, field.ErrorList{field.Invalid(block, string(app.WebApp.Raw), "must be an object with fields of the spec of a WebApp")}
		}
	}
	var errs field.ErrorList
	set := func(key string, value any, from *field.Path) {
		if _, ok := content[key]; ok {
			errs = append(errs, field.Forbidden(block.Child(key), fmt.Sprintf("%s has the value; remove one of the two", from)))
		}
		content[key] = encode(value)
	}
	set("image", app.Image, path.Child(name, "image"))
	if app.Replicas != nil {
		set("replicas", app.Replicas, path.Child(name, "replicas"))
	}
	if ingress != nil {
		set("ingress", ingress, path.Child("ingress")) // the fields are named as those of a WebApp's
	}
	return raw(content), errs
}

// databaseComponent is the database. monitored makes Prometheus scrape it, if it can.
func databaseComponent(d *platformv1.EcommerceDatabase, monitored bool) platformv1.AppStackComponent {
	c := platformv1.AppStackComponent{Name: database}
	switch {
	case d.ExternalSecretRef != nil:
		kind := platformv1.ExternalPostgreSQL
		if d.Type == mySQL {
			kind = platformv1.ExternalMySQL
		}
		c.External = &platformv1.External{Type: kind, SecretRef: *d.ExternalSecretRef}
	case d.Type == mySQL:
		c.MySQL = &platformv1.MySQL{Version: d.Version, Storage: d.Storage}
		if b := d.Backup; b != nil {
			c.MySQL.Backup = &platformv1.MySQLBackup{Enabled: b.Enabled, Schedule: b.Schedule, Retention: b.Retention, Destination: b.Destination}
		}
	default:
		c.PostgreSQL = postgreSQL(d, monitored)
	}
	return c
}

// postgreSQL is the spec of a PostgreSQL in JSON, without the fields that the user left out: the Go type would write its zero values.
func postgreSQL(d *platformv1.EcommerceDatabase, monitored bool) *runtime.RawExtension {
	content := map[string]json.RawMessage{"version": encode(cmp.Or(d.Version, postgreSQLVersion))}
	if d.Storage != nil {
		content["storage"] = encode(d.Storage)
	}
	if d.Replicas != nil {
		content["replicas"] = encode(d.Replicas)
	}
	if d.Backup != nil {
		content["backup"] = encode(d.Backup) // the fields are named as those of a PostgreSQL's
	}
	if monitored {
		content["monitoring"] = encode(map[string]bool{"enabled": true})
	}
	return raw(content)
}

// raw is content with sorted keys.
func raw(content map[string]json.RawMessage) *runtime.RawExtension {
	return &runtime.RawExtension{Raw: encode(content)}
}

// encode is the JSON of a value of the API, which always has one.
func encode(value any) json.RawMessage {
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Errorf("encode %T: %w", value, err))
	}
	return text
}
