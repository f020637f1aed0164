package cache

import (
	"bytes"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// trimToEdits keeps of managedFields only what [ForeignEditTime] reads.
func trimToEdits(in any) (any, error) {
	object, ok := in.(metav1.Object)
	if !ok {
		return in, nil
	}
	var kept []metav1.ManagedFieldsEntry
	for _, e := range object.GetManagedFields() {
		if ownsContents(&e) {
			kept = append(kept, metav1.ManagedFieldsEntry{Manager: e.Manager, Operation: e.Operation, Time: e.Time})
		}
	}
	out, err := trimBookkeeping(in)
	object.SetManagedFields(kept)
	return out, err
}

func ownsContents(e *metav1.ManagedFieldsEntry) bool {
	if e.FieldsV1 == nil {
		return true // already trimmed
	}
	raw := e.FieldsV1.GetRawBytes()
	return bytes.Contains(raw, []byte(`"f:data":`)) || bytes.Contains(raw, []byte(`"f:binaryData":`))
}

// ForeignEditTime returns when a client other than fieldOwner, the owner's field manager, last changed the contents of a Secret or
// ConfigMap. The time is to the second, from managedFields; zero if no such change is known.
func ForeignEditTime(entries []metav1.ManagedFieldsEntry, fieldOwner string) time.Time {
	var last time.Time
	for i := range entries {
		e := &entries[i]
		own := e.Manager == fieldOwner && e.Operation == metav1.ManagedFieldsOperationApply
		if !own && e.Time != nil && e.Time.After(last) && ownsContents(e) {
			last = e.Time.Time
		}
	}
	return last
}
