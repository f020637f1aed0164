package apply

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// differences returns the paths at which have does not contain want, sorted; none if it contains all of want. want is canonical JSON (maps,
// slices, strings, bools, int64, float64, and zero), have is the live object, t the type of both.
//
// Fields that want does not mention belong to other owners, with one exception: an atomic value has one owner as a whole. There, additions
// count as differences unless they are defaults, because an added rule or selector term changes the meaning of the object.
//
// Without a schema (a kind that only its CRD describes), maps may have additions. Lists must have the same number of items, each of which
// contains the desired one.
func differences(want map[string]any, have value.Value, t objectType) []string {
	d := differ{types: t, at: make([]string, 0, 16)}
	root := have.AsMap()
	for key, w := range want {
		if key == "apiVersion" || key == "kind" {
			continue // typed objects from a cache have none
		}
		d.member(t.field(key), key, w, root)
	}
	slices.Sort(d.paths)
	return d.paths
}

// differ walks the desired object and records where the live one differs.
type differ struct {
	types objectType
	// at is the path from the root to the current place.
	at    []string
	paths []string
	// atomic is true inside an atomic value of the schema.
	atomic bool
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// record adds the current place, as a JSON pointer.
func (d *differ) record() {
	var b strings.Builder
	for _, segment := range d.at {
		b.WriteByte('/')
		b.WriteString(pointerEscapes.Replace(segment))
	}
	d.paths = append(d.paths, b.String())
}

// member compares the desired value of key with the value in the live map.
func (d *differ) member(t schema.TypeRef, key string, want any, have value.Map) {
	d.at = append(d.at, key)
	if live, ok := have.Get(key); ok {
		d.walk(t, want, live)
	} else if _, absent := want.(zero); !absent {
		d.record()
	}
	d.at = d.at[:len(d.at)-1]
}

func (d *differ) walk(t schema.TypeRef, want any, have value.Value) {
	switch want := want.(type) {
	case map[string]any:
		if have.IsNull() || !have.IsMap() {
			d.record()
			return
		}
		d.walkMap(d.types.resolve(t).Map, want, have.AsMap())
	case []any:
		if have.IsNull() || !have.IsList() {
			d.record()
			return
		}
		d.walkList(d.types.resolve(t).List, want, have.AsList())
	case zero:
		d.walk(t, want.value, have)
	default:
		if !equalScalar(want, have) {
			d.record()
		}
	}
}

func (d *differ) walkMap(t *schema.Map, want map[string]any, have value.Map) {
	if t == nil {
		t = &schema.Map{}
	}
	if t.ElementRelationship == schema.Atomic && !d.atomic {
		d.atomic = true
		defer func() { d.atomic = false }()
	}
	for key, w := range want {
		d.member(fieldType(t, key), key, w, have)
	}
	if !d.atomic {
		return
	}
	have.Iterate(func(key string, v value.Value) bool {
		if _, wanted := want[key]; !wanted && !isDefault(t, key, v) {
			d.at = append(d.at, key)
			d.record()
			d.at = d.at[:len(d.at)-1]
		}
		return true
	})
}

func (d *differ) walkList(t *schema.List, want []any, have value.List) {
	if t == nil {
		d.walkItems(schema.TypeRef{}, want, have)
		return
	}
	if t.ElementRelationship != schema.Associative && !d.atomic {
		d.atomic = true
		defer func() { d.atomic = false }()
	}
	if d.atomic {
		d.walkItems(t.ElementType, want, have)
		return
	}
	d.walkKeyed(t, want, have)
}

// walkItems compares lists whose order and length count.
func (d *differ) walkItems(item schema.TypeRef, want []any, have value.List) {
	if len(want) != have.Length() {
		d.record()
		return
	}
	for i, w := range want {
		d.at = append(d.at, strconv.Itoa(i))
		d.walk(item, w, have.At(i))
		d.at = d.at[:len(d.at)-1]
	}
}

// walkKeyed compares lists whose items have keys, or are keys (a set). Each desired item must be there exactly once, in any place. A
// duplicate is a difference, because the other item may be the effective one.
func (d *differ) walkKeyed(t *schema.List, want []any, have value.List) {
	keys := d.types.keys(t)
	live := make(map[string]value.Value, have.Length())
	for i := range have.Length() {
		v := have.At(i)
		k := keys.of(v)
		if _, twice := live[k]; twice {
			v = nil
		}
		live[k] = v
	}
	for _, w := range want {
		k := keys.wanted(w)
		d.at = append(d.at, k)
		if v := live[k]; v != nil {
			d.walk(t.ElementType, w, v)
		} else {
			d.record()
		}
		d.at = d.at[:len(d.at)-1]
	}
}

// itemKeys identifies the items of a list.
type itemKeys struct {
	names    []string
	defaults []any
}

// of returns the key of an item: its key fields with the schema's defaults, or the item itself.
func (k itemKeys) of(item value.Value) string {
	if len(k.names) == 0 || !item.IsMap() {
		return scalarText(item)
	}
	fields := item.AsMap()
	if len(k.names) == 1 {
		return k.field(fields, 0)
	}
	texts := make([]string, len(k.names))
	for i := range k.names {
		texts[i] = k.field(fields, i)
	}
	return strings.Join(texts, ",")
}

func (k itemKeys) field(fields value.Map, i int) string {
	if f, ok := fields.Get(k.names[i]); ok {
		return scalarText(f)
	}
	return fmt.Sprint(k.defaults[i])
}

// wanted returns the key of a desired item.
func (k itemKeys) wanted(item any) string {
	fields, ok := item.(map[string]any)
	if len(k.names) == 0 || !ok {
		return fmt.Sprint(item)
	}
	texts := make([]string, len(k.names))
	for i, name := range k.names {
		f, ok := fields[name]
		if _, absent := f.(zero); !ok || absent {
			f = k.defaults[i]
		}
		texts[i] = fmt.Sprint(f)
	}
	return strings.Join(texts, ",")
}

func scalarText(v value.Value) string {
	switch {
	case v.IsNull():
		return "null"
	case v.IsString():
		return v.AsString()
	case v.IsInt():
		return strconv.FormatInt(v.AsInt(), 10)
	default:
		return fmt.Sprint(v.Unstructured())
	}
}

func equalScalar(want any, have value.Value) bool {
	switch want := want.(type) {
	case nil:
		return have.IsNull()
	case string:
		return have.IsString() && have.AsString() == want
	case bool:
		return have.IsBool() && have.AsBool() == want
	case int64:
		return equalNumber(float64(want), have, func() bool { return have.AsInt() == want })
	case float64:
		return equalNumber(want, have, func() bool { return float64(have.AsInt()) == want })
	default:
		return false
	}
}

// equalNumber compares as integers if have is one, so large values are compared exactly.
func equalNumber(want float64, have value.Value, asInt func() bool) bool {
	if have.IsInt() {
		return asInt()
	}
	return have.IsFloat() && have.AsFloat() == want
}

// defaults are the values that the API server sets inside atomic parts of built-in kinds, by field. Elsewhere additions are not
// differences. A default that is missing here costs one redundant write per start of the operator, see [mutations].
var defaults = map[string][]any{
	"apiGroup":          {"rbac.authorization.k8s.io"}, // RoleBinding.roleRef
	"apiVersion":        {"v1"},                        // fieldRef; volumeClaimTemplates
	"kind":              {"PersistentVolumeClaim"},     // volumeClaimTemplates
	"divisor":           {"0"},                         // resourceFieldRef
	"expirationSeconds": {int64(3600)},                 // projected serviceAccountToken
	"phase":             {"Pending"},                   // volumeClaimTemplates' status
	"protocol":          {"TCP"},                       // NetworkPolicy ports
	"scope":             {"*"},                         // webhook rules
	"volumeMode":        {"Filesystem"},                // volumeClaimTemplates
}

// isDefault reports whether a field of an atomic struct was set by the API server. Keys of a map (labels, a selector) have no defaults.
func isDefault(t *schema.Map, key string, v value.Value) bool {
	return len(t.Fields) > 0 && isUnset(key, v)
}

// isUnset reports whether v is the default of key, a zero value that its Go type encodes although it is unset, or a struct with only such
// fields.
func isUnset(key string, v value.Value) bool {
	switch {
	case v.IsNull():
		return true
	case v.IsMap():
		return v.AsMap().Iterate(isUnset)
	case v.IsList():
		return v.AsList().Length() == 0
	case slices.ContainsFunc(defaults[key], func(d any) bool { return equalScalar(d, v) }):
		return true
	default:
		return equalScalar("", v) || equalScalar(false, v) || equalScalar(int64(0), v)
	}
}
