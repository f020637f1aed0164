package apply

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// differences returns the paths at which have lacks what want says, sorted; none when have
// contains want. want is JSON (maps, slices, strings, bools, int64, float64) in the form that
// the object's Go type gives it, have is the live object, t the type of both.
//
// Whatever want does not mention is left to others, with one exception: what the schema calls
// atomic belongs to one owner as a whole. There, additions count as differences unless they
// are defaults, because an added rule or selector term changes what the object means.
//
// Without a schema (a kind that only its CRD describes) maps may have additions, and lists
// must have as many items, each of which contains the desired one.
func differences(want map[string]any, have value.Value, t objectType) []string {
	d := differ{types: t}
	for key, w := range want {
		if key == "apiVersion" || key == "kind" {
			continue // typed objects from a cache have none
		}
		d.member(nil, t.field(key), key, w, have.AsMap())
	}
	slices.Sort(d.paths)
	return d.paths
}

// differ walks the desired object and notes where the live one differs.
type differ struct {
	types objectType
	paths []string
	// atomic is set inside what the schema calls atomic.
	atomic bool
}

// path is the way from the root, in JSON pointer segments.
type path []string

func (p path) String() string {
	return "/" + strings.Join(p, "/")
}

func (p path) to(segment string) path {
	return append(p[:len(p):len(p)], strings.NewReplacer("~", "~0", "/", "~1").Replace(segment))
}

func (d *differ) differs(p path) {
	d.paths = append(d.paths, p.String())
}

// member compares what want has under key with what the live map has there.
func (d *differ) member(parent path, t schema.TypeRef, key string, want any, have value.Map) {
	p := parent.to(key)
	live, ok := have.Get(key)
	if !ok {
		d.differs(p)
		return
	}
	d.walk(p, t, want, live)
}

func (d *differ) walk(p path, t schema.TypeRef, want any, have value.Value) {
	switch want := want.(type) {
	case map[string]any:
		if have.IsNull() || !have.IsMap() {
			d.differs(p)
			return
		}
		d.walkMap(p, d.types.resolve(t).Map, want, have.AsMap())
	case []any:
		if have.IsNull() || !have.IsList() {
			d.differs(p)
			return
		}
		d.walkList(p, d.types.resolve(t).List, want, have.AsList())
	default:
		if !equalScalar(want, have) {
			d.differs(p)
		}
	}
}

func (d *differ) walkMap(p path, t *schema.Map, want map[string]any, have value.Map) {
	if t == nil {
		t = &schema.Map{}
	}
	if t.ElementRelationship == schema.Atomic && !d.atomic {
		d.atomic = true
		defer func() { d.atomic = false }()
	}
	for key, w := range want {
		d.member(p, fieldType(t, key), key, w, have)
	}
	if !d.atomic {
		return
	}
	have.Iterate(func(key string, v value.Value) bool {
		if _, wanted := want[key]; !wanted && !isDefault(t, key, v) {
			d.differs(p.to(key))
		}
		return true
	})
}

func (d *differ) walkList(p path, t *schema.List, want []any, have value.List) {
	if t == nil {
		d.walkItems(p, schema.TypeRef{}, want, have)
		return
	}
	if t.ElementRelationship != schema.Associative && !d.atomic {
		d.atomic = true
		defer func() { d.atomic = false }()
	}
	if d.atomic {
		d.walkItems(p, t.ElementType, want, have)
		return
	}
	d.walkKeyed(p, t, want, have)
}

// walkItems compares lists whose order and length count.
func (d *differ) walkItems(p path, item schema.TypeRef, want []any, have value.List) {
	if len(want) != have.Length() {
		d.differs(p)
		return
	}
	for i, w := range want {
		d.walk(p.to(strconv.Itoa(i)), item, w, have.At(i))
	}
}

// walkKeyed compares lists whose items have keys, or are keys (a set): each desired item must
// be there exactly once, in any place. Twice differs, as the other one may be the one that counts.
func (d *differ) walkKeyed(p path, t *schema.List, want []any, have value.List) {
	keys := d.types.keys(t)
	live := make(map[string]value.Value, have.Length())
	twice := map[string]bool{}
	for i := range have.Length() {
		v := have.At(i)
		k := keys.of(v)
		if _, ok := live[k]; ok {
			twice[k] = true
		}
		live[k] = v
	}
	for _, w := range want {
		k := keys.of(value.NewValueInterface(w))
		v, ok := live[k]
		if !ok || twice[k] {
			d.differs(p.to(k))
			continue
		}
		d.walk(p.to(k), t.ElementType, w, v)
	}
}

// itemKeys tells the items of one list apart.
type itemKeys struct {
	names    []string
	defaults []any
}

// of returns the key of an item: its key fields, with the schema's defaults, or the item itself.
func (k itemKeys) of(item value.Value) string {
	if len(k.names) == 0 || !item.IsMap() {
		return fmt.Sprint(item.Unstructured())
	}
	var b strings.Builder
	fields := item.AsMap()
	for i, name := range k.names {
		v := k.defaults[i]
		if f, ok := fields.Get(name); ok {
			v = f.Unstructured()
		}
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s=%v", name, v)
	}
	return b.String()
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

// equalNumber compares as whole numbers if have is one, so that large ones are compared exactly.
func equalNumber(want float64, have value.Value, asInt func() bool) bool {
	if have.IsInt() {
		return asInt()
	}
	return have.IsFloat() && have.AsFloat() == want
}

// defaults are the values that the API server fills in inside atomic parts of built-in kinds,
// by field. Outside of them additions are no difference anyway. A default that is missing
// here costs one write without effect for each start of the operator, see [memory.hopeless].
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

// isDefault reports whether a field of an atomic struct is one that nobody has set. Keys of a
// map (labels, a selector) have no defaults.
func isDefault(t *schema.Map, key string, v value.Value) bool {
	return len(t.Fields) > 0 && isUnset(key, v)
}

// isUnset reports whether v is the default of key, a zero value that its Go type writes although
// nothing is set, or a struct of nothing but such.
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
