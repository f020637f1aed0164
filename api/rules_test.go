package api_test

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// rule has, for a rule that is written in CEL or a bound, specs that it accepts and specs that it rejects.
type rule struct {
	accept, reject []string
	// field is the path and message a part of the sentence that the refusal must contain.
	field, message string
}

// change has, for a rule about what may become of an object that exists, a change that it accepts and changes that it rejects.
type change struct {
	before, accept string
	reject         []string
	message        string
}

// expectRejected checks the refusal of a spec.
func expectRejected(t *testing.T, err error, spec, field, message string) {
	t.Helper()
	switch {
	case err == nil:
		t.Errorf("%s: accepted", spec)
	case !strings.Contains(err.Error(), field) || !strings.Contains(err.Error(), message):
		t.Errorf("%s: rejected with %q, want %s: %s", spec, err, field, message)
	}
}

func TestRules(t *testing.T) {
	c := newClient(t)
	for _, k := range kinds {
		for _, r := range k.rules {
			t.Run(k.name+"/"+r.message, func(t *testing.T) {
				for _, spec := range r.accept {
					if err := try(t, c, object(t, k, spec)); err != nil {
						t.Errorf("%s: rejected: %v", spec, err)
					}
				}
				for _, spec := range r.reject {
					expectRejected(t, try(t, c, object(t, k, spec)), spec, r.field, r.message)
				}
			})
		}
	}
}

func TestChanges(t *testing.T) {
	c := newClient(t)
	for _, k := range kinds {
		for _, r := range k.changes {
			t.Run(k.name+"/"+r.message, func(t *testing.T) {
				u := created(t, k, object(t, k, r.before))
				update := func(spec string) error {
					fresh := &unstructured.Unstructured{}
					fresh.SetGroupVersionKind(u.GroupVersionKind())
					if err := c.Get(t.Context(), client.ObjectKeyFromObject(u), fresh); err != nil {
						t.Fatal(err)
					}
					fresh.Object["spec"] = object(t, k, spec).Object["spec"]
					return c.Update(t.Context(), plain(t, fresh), client.DryRunAll)
				}
				if err := update(r.accept); err != nil {
					t.Errorf("%s: rejected: %v", r.accept, err)
				}
				for _, spec := range r.reject {
					expectRejected(t, update(spec), spec, "", r.message)
				}
				// One that is being deleted, or whose labels change, is never in the way.
				if err := c.Patch(t.Context(), u, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestEveryRuleHasCases finds the rules of the schemas that no case is about.
func TestEveryRuleHasCases(t *testing.T) {
	for _, k := range kinds {
		covered := func(message string) bool {
			for _, r := range k.rules {
				if len(r.accept) > 0 && len(r.reject) > 0 && strings.HasPrefix(message, r.message) {
					return true
				}
			}
			for _, r := range k.changes {
				if len(r.reject) > 0 && strings.HasPrefix(message, r.message) {
					return true
				}
			}
			return len(k.names) > 0 && strings.HasPrefix(message, "metadata.name:")
		}
		rules := 0
		walk(t, k, func(path string, s *apiextensionsv1.JSONSchemaProps) {
			for _, rule := range s.XValidations {
				if rules++; !covered(rule.Message) {
					t.Errorf("%s%s: no case for the rule %q", k.name, path, rule.Message)
				}
			}
		})
		if rules == 0 {
			t.Errorf("%s: no rules found", k.name)
		}
	}
}

func TestName(t *testing.T) {
	c := newClient(t)
	for _, k := range kinds {
		for name, ok := range k.names {
			u := object(t, k, "")
			u.SetName(name)
			if err := try(t, c, u); ok && err != nil {
				t.Errorf("%s %s: %v", k.name, name, err)
			} else if !ok {
				expectRejected(t, err, k.name+" "+name, "", k.nameMessage)
			}
		}
	}
}

func TestUnknownFields(t *testing.T) {
	for _, k := range kinds {
		expectRejected(t, try(t, newClient(t), object(t, k, "unheardOf: 3")), k.name, "", `unknown field "spec.unheardOf"`)
	}
}

// TestEverythingWrongAtOnce wants one refusal to name all that is wrong, as people who learn expect it.
func TestEverythingWrongAtOnce(t *testing.T) {
	spec := `options: [{id: AB, label: ` + strings.Repeat("x", 51) + `, color: red}]`
	err := try(t, newClient(t), object(t, kindNamed("VoteConfig"), spec))
	for _, want := range []string{"spec.options[0].id", "spec.options[0].label", "spec.options[0].color", "at least 2 items"} {
		expectRejected(t, err, spec, want, "")
	}
}
