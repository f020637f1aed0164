package appconfig

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/render"
)

const (
	maxWarnings = 20
	maxWarning  = 512
)

// content is the contents of one revision. No key is in both maps.
type content struct {
	// data goes into the ConfigMap, secret into the Secret.
	data, secret map[string]string
}

// keys are the names of both maps, sorted.
func (c content) keys() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for _, m := range []map[string]string{c.data, c.secret} {
			for k := range m {
				if !yield(k) {
					return
				}
			}
		}
	})
}

// rendered is the result of rendering a spec, or the reason why it failed.
type rendered struct {
	content
	// hash of the content; "" if problem is set.
	hash string
	// inputs identifies the sources of the content, if there are more than the spec; see inputsKey.
	inputs   string
	warnings []string
	problem  *conditions.State
}

// overrides are those of the spec's environment; empty if there are none.
func overrides(spec *configv1.AppConfigSpec) configv1.AppConfigOverrides {
	var o *configv1.AppConfigOverrides
	if e := spec.Environments; e != nil {
		switch spec.Environment {
		case configv1.EnvironmentDev:
			o = e.Dev
		case configv1.EnvironmentStaging:
			o = e.Staging
		case configv1.EnvironmentProd:
			o = e.Prod
		}
	}
	return *cmp.Or(o, &configv1.AppConfigOverrides{})
}

// merged is base, overridden by over.
func merged(base, over map[string]string) map[string]string {
	out := maps.Clone(base)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, over)
	return out
}

// renderInput is the input of the templates of cfg. Later ones win: sources, spec.values, the values of the environment.
func renderInput(cfg *configv1.AppConfig, sourced map[string]render.Value) render.Input {
	over := overrides(&cfg.Spec)
	values := maps.Clone(sourced)
	if values == nil {
		values = map[string]render.Value{}
	}
	for k, v := range merged(cfg.Spec.Values, over.Values) {
		values[k] = render.Value{Text: v}
	}
	return render.Input{
		Application: cfg.Spec.Application,
		Environment: string(cfg.Spec.Environment),
		Namespace:   cfg.Namespace,
		Name:        cfg.Name,
		Values:      values,
		Config:      merged(cfg.Spec.Config, over.Config),
		Files:       merged(cfg.Spec.Files, over.Files),
	}
}

// renderAll renders and validates cfg.
func renderAll(cfg *configv1.AppConfig, sourced map[string]render.Value) rendered {
	in := renderInput(cfg, sourced)
	schemas := schemasOf(cfg.Spec.Schema)
	if err := checkSchemas(schemas, in.Files); err != nil {
		return rejected(configv1.ReasonInvalidSchema, err)
	}
	out, err := render.Render(in)
	if err != nil {
		return rejected(reasonOf(err), err)
	}
	if err := render.CheckFormats(out); err != nil {
		return rejected(configv1.ReasonMalformed, err)
	}
	if err := render.Validate(out, schemas); err != nil {
		return rejected(configv1.ReasonSchemaViolation, err)
	}
	c := content{data: out.Data, secret: out.Secret}
	return rendered{content: c, warnings: warnings(c)}
}

func rejected(reason string, err error) rendered {
	return rendered{problem: new(conditions.False(reason, err.Error()))}
}

// reasonOf distinguishes a result that is too large from an invalid template.
func reasonOf(err error) string {
	var faults *render.Error
	if errors.As(err, &faults) && slices.ContainsFunc(faults.Faults, func(f render.Fault) bool { return f.TooLarge }) {
		return fettlev1.ReasonTooLarge
	}
	return configv1.ReasonTemplateError
}

func schemasOf(s *configv1.AppConfigSchema) render.Schemas {
	var out render.Schemas
	if s == nil {
		return out
	}
	if s.Config != nil {
		out.Config = s.Config.Raw
	}
	if len(s.Files) > 0 {
		out.Files = map[string][]byte{}
	}
	for name, schema := range s.Files {
		out.Files[name] = schema.Raw
	}
	return out
}

func checkSchemas(s render.Schemas, files map[string]string) error {
	if len(s.Config) > 0 {
		if err := render.CheckSchema(s.Config); err != nil {
			return fmt.Errorf("spec.schema.config: %w", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Files)) {
		if _, ok := files[name]; !ok {
			return fmt.Errorf("spec.schema.files: there is no file %q: add it to spec.files, or remove its schema", name)
		}
		if err := render.CheckSchema(s.Files[name]); err != nil {
			return fmt.Errorf("spec.schema.files[%s]: %w", name, err)
		}
	}
	return nil
}

// secretName matches keys whose value is probably secret.
var secretName = regexp.MustCompile(`(?i)passw(or)?d|token|secret|api[_-]?key`)

// warnings lists the keys of the ConfigMap whose value should perhaps come from a Secret.
func warnings(c content) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(c.data)) {
		if c.data[k] == "" || !secretName.MatchString(k) {
			continue
		}
		if len(out) == maxWarnings-1 {
			return append(out, "and more")
		}
		out = append(out, conditions.Clip(fmt.Sprintf(
			"key %q looks like a secret and is in the ConfigMap: take its value from a Secret (spec.valuesFrom.secretRef)", k), maxWarning))
	}
	return out
}

// describe is one line for an event.
func describe(warnings []string) string { return strings.Join(warnings, "; ") }

// value returns the text of a key of either map.
func (c content) value(key string) (string, bool) {
	if v, ok := c.data[key]; ok {
		return v, true
	}
	v, ok := c.secret[key]
	return v, ok
}
