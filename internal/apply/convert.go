package apply

import (
	"encoding/json"
	"fmt"
)

// Convert converts a typed value into the apply configuration of the same shape, or back. Both have the same JSON form, so that only a
// mistake in the caller can make it fail.
func Convert[T any](v any) *T {
	out := new(T)
	MergeInto(out, v)
	return out
}

// MergeInto sets in ac the fields that v, a value of the same shape, sets.
func MergeInto(ac, v any) {
	raw, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(raw, ac)
	}
	if err != nil {
		panic(fmt.Sprintf("%T is not an apply configuration of %T: %v", ac, v, err))
	}
}
