package cache

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func changedBy(manager string, operation metav1.ManagedFieldsOperationType, at time.Time, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: operation, Time: new(metav1.NewTime(at)), FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
	}
}

func TestForeignEditTime(t *testing.T) {
	const (
		update, apply = metav1.ManagedFieldsOperationUpdate, metav1.ManagedFieldsOperationApply
		data          = `{"f:data":{"f:a":{}}}`
		binary        = `{"f:binaryData":{"f:a":{}}}`
		labels        = `{"f:metadata":{"f:labels":{}}}`
	)
	edited := time.Unix(7, 0)
	ours := changedBy("appconfig", apply, edited, data)
	for name, tc := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    time.Time
	}{
		"nobody":                                  {nil, time.Time{}},
		"its owner alone":                         {[]metav1.ManagedFieldsEntry{ours}, time.Time{}},
		"another client, values":                  {[]metav1.ManagedFieldsEntry{ours, changedBy("kubectl", update, edited.Add(1), data)}, edited.Add(1)},
		"another client, binary values":           {[]metav1.ManagedFieldsEntry{changedBy("kubectl", update, edited, binary)}, edited},
		"another client, labels":                  {[]metav1.ManagedFieldsEntry{changedBy("kubectl", update, edited, labels)}, time.Time{}},
		"the last of two":                         {[]metav1.ManagedFieldsEntry{changedBy("b", update, edited.Add(9), data), changedBy("a", apply, edited.Add(5), data)}, edited.Add(9)},
		"another operation with the owner's name": {[]metav1.ManagedFieldsEntry{changedBy("appconfig", update, edited, data)}, edited},
		"no time":                                 {[]metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: update, FieldsV1: metav1.NewFieldsV1(data)}}, time.Time{}},
		"another controller of the project":       {[]metav1.ManagedFieldsEntry{changedBy("voteconfig", apply, edited, data)}, edited},
	} {
		kept := twice(t, trimToEdits, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ManagedFields: tc.entries}}).(*corev1.ConfigMap).ManagedFields
		for form, entries := range map[string][]metav1.ManagedFieldsEntry{"as stored": tc.entries, "as cached": kept} {
			if got := ForeignEditTime(entries, "appconfig"); !got.Equal(tc.want) {
				t.Errorf("%s, %s: %s, want %s", name, form, got, tc.want)
			}
		}
		if slices.ContainsFunc(kept, func(e metav1.ManagedFieldsEntry) bool { return e.FieldsV1 != nil }) {
			t.Errorf("%s: fields are kept in memory", name)
		}
	}
}
