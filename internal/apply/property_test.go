package apply

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// foreignEditor adds to a live object what an owner ignores: fields that it has not set, keys of maps, items of lists with keys.
type foreignEditor struct {
	rng   *rand.Rand
	types objectType
	count int
}

func (s *foreignEditor) sometimes() bool { return s.rng.IntN(4) == 0 }

func (s *foreignEditor) disturb(ref smd.TypeRef, want, live any) any {
	atom := s.types.resolve(ref)
	switch live := live.(type) {
	case map[string]any:
		if atom.Map == nil || atom.Map.ElementRelationship == smd.Atomic {
			return live
		}
		w, _ := want.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(live)) {
			live[key] = s.disturb(fieldType(atom.Map, key), w[key], live[key])
		}
		s.addFields(atom.Map, w, live)
	case []any:
		if atom.List == nil || atom.List.ElementRelationship != smd.Associative {
			return live
		}
		keys := s.types.keys(atom.List)
		w, _ := want.([]any)
		for i, item := range live {
			same := slices.IndexFunc(w, func(x any) bool { return keys.wanted(x) == keys.wanted(item) })
			if same >= 0 {
				live[i] = s.disturb(atom.List.ElementType, w[same], item)
			}
		}
		if s.sometimes() {
			live = slices.Insert(live, s.rng.IntN(len(live)+1), s.item(atom.List, keys))
		}
		return live
	}
	return live
}

func (s *foreignEditor) addFields(t *smd.Map, want, live map[string]any) {
	if len(t.Fields) == 0 && s.sometimes() {
		s.count++
		live[fmt.Sprintf("stranger.example.com-%d", s.count)] = "1"
	}
	for _, f := range t.Fields {
		_, wanted := want[f.Name]
		_, there := live[f.Name]
		scalar := s.types.resolve(f.Type).Scalar
		if wanted || there || scalar == nil || strings.Contains(f.Name, "Time") || !s.sometimes() {
			continue
		}
		if value, ok := foreignValues[*scalar]; ok {
			live[f.Name] = value
		}
	}
}

var foreignValues = map[smd.Scalar]any{smd.String: "stranger", smd.Numeric: int64(7), smd.Boolean: true}

func (s *foreignEditor) item(list *smd.List, keys itemKeys) any {
	s.count++
	if len(keys.names) == 0 {
		return fmt.Sprintf("stranger-%d", s.count)
	}
	item := map[string]any{}
	for i, name := range keys.names {
		field, _ := s.types.resolve(list.ElementType).FindField(name)
		scalar := s.types.resolve(field.Type).Scalar
		switch {
		case keys.defaults[i] != nil:
			item[name] = keys.defaults[i]
		case scalar != nil && *scalar == smd.Numeric:
			item[name] = int64(60000 + s.count)
		default:
			item[name] = fmt.Sprintf("stranger-%d", s.count)
		}
	}
	return item
}

// forms returns a live object as JSON and, if possible, as its Go type.
func forms(t *testing.T, d *desiredObject, live map[string]any) map[string]value.Value {
	t.Helper()
	out := map[string]value.Value{"JSON": value.NewValueInterface(live)}
	obj, err := clientscheme.Scheme.New(d.gvk)
	if err != nil {
		t.Fatal(err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live, obj); err != nil {
		return out
	}
	typed, err := value.NewValueReflect(obj)
	if err != nil {
		t.Fatal(err)
	}
	out["Go type"] = typed
	return out
}

// The stored object contains the desired one, whatever other clients have added.
func TestDifferences_ignoreDefaultsAndForeignAdditions(t *testing.T) {
	for _, config := range webChildren(testNamespace) {
		d := mustRender(t, config, testOwner())
		types := mustType(t, d.gvk)
		asStored := stored(t, d)
		typed, added := 0, 0
		for seed := range uint64(300) {
			live := runtime.DeepCopyJSON(asStored)
			s := &foreignEditor{rng: rand.New(rand.NewPCG(seed, 1)), types: types}
			if seed > 0 {
				for _, key := range slices.Sorted(maps.Keys(live)) {
					live[key] = s.disturb(types.field(key), d.content[key], live[key])
				}
			}
			added += s.count
			for form, v := range forms(t, d, live) {
				if form != "JSON" {
					typed++
				}
				if paths := differences(d.content, v, types); len(paths) > 0 {
					t.Fatalf("%s, seed %d, as %s: differs at %v", d.gvk.Kind, seed, form, paths)
				}
			}
		}
		if typed < 100 || added < 100 {
			t.Errorf("%s: %d rounds with its Go type and %d additions are too few", d.gvk.Kind, typed, added)
		}
	}
}

// everyChange calls f with a copy of root for each place in it, once with the value there changed and once without it, except in the names
// of list items.
func everyChange(root map[string]any, f func(place string, changed map[string]any)) {
	var visit func(place []string, v any, set func(any))
	again := func(place []string, set func(any), v any) {
		set(v)
		f(strings.Join(place, "/"), plain(root).(map[string]any))
	}
	visit = func(place []string, v any, set func(any)) {
		switch v := v.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				old := v[key]
				at := append(slices.Clone(place), key)
				visit(at, old, func(n any) { v[key] = n })
				v[key] = old
				if _, absent := old.(zero); !absent {
					delete(v, key)
					f(strings.Join(at, "/")+" (absent)", plain(root).(map[string]any))
					v[key] = old
				}
			}
		case []any:
			for i, old := range v {
				visit(append(slices.Clone(place), fmt.Sprint(i)), old, func(n any) { v[i] = n })
				v[i] = old
			}
			if len(v) > 0 {
				again(append(place, "(one less)"), set, v[1:])
				set(v)
			}
		default:
			for _, other := range others(v) {
				again(place, set, other)
				set(v)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(root)) {
		if key != "apiVersion" && key != "kind" {
			visit([]string{key}, root[key], func(n any) { root[key] = n })
		}
	}
}

// others returns values that differ from the scalar v.
func others(v any) []any {
	switch v := v.(type) {
	case zero:
		return others(v.value)
	case string:
		return []any{v + "x", "7", "AAAA"} // texts, quantities, bytes
	case bool:
		return []any{!v}
	case int64:
		return []any{v + 1, "text"}
	case float64:
		return []any{v + 0.5}
	default:
		return nil
	}
}

// Any single change to a desired value in the live object is a difference.
func TestDifferences_findEveryChange(t *testing.T) {
	for _, config := range webChildren(testNamespace) {
		d := mustRender(t, config, testOwner())
		types := mustType(t, d.gvk)
		want := mustRender(t, config, testOwner()).content
		places := 0
		everyChange(d.content, func(place string, changed map[string]any) {
			places++
			for form, v := range forms(t, d, changed) {
				if len(differences(want, v, types)) == 0 {
					t.Errorf("%s, as %s: a change of %s is not found", d.gvk.Kind, form, place)
				}
			}
		})
		if places < 20 {
			t.Errorf("%s: only %d places", d.gvk.Kind, places)
		}
	}
}

// The API server merges by structured-merge-diff. Where that library sees a change by apply, so do we, and the reverse, except for defaults
// in atomic parts.
func TestDifferences_agreeWithStructuredMergeDiff(t *testing.T) {
	for _, config := range webChildren(testNamespace) {
		d := mustRender(t, config, testOwner())
		types := mustType(t, d.gvk)
		want := mustRender(t, config, testOwner()).content
		desired, err := converter().ObjectToTyped(&unstructured.Unstructured{Object: plain(want).(map[string]any)})
		if err != nil {
			t.Fatal(err)
		}
		everyChange(d.content, func(place string, changed map[string]any) {
			live, err := converter().ObjectToTyped(&unstructured.Unstructured{Object: changed})
			if err != nil {
				return // not an object that an API server would have
			}
			c, err := live.Compare(desired)
			if err != nil {
				t.Fatal(err)
			}
			theirs := !c.Added.Empty() || !c.Modified.Empty()
			ours := len(differences(want, value.NewValueInterface(changed), types)) > 0
			if ours != theirs {
				t.Errorf("%s, %s: we find a difference: %v, structured-merge-diff: %v\n%s", d.gvk.Kind, place, ours, theirs, c)
			}
		})
	}
}
