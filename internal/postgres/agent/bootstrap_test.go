package agent

import (
	"testing"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
)

// TestSameMajor_otherImage neither makes data with such an image, nor takes over parameters that were judged for another one.
func TestSameMajor_otherImage(t *testing.T) {
	a := &Agent{options: options, major: 15}
	a.version = "15.18"
	object := newObject(func(o *databasev1alpha1.PostgreSQL) { o.Spec.Version = "16.4" })
	const want = "spec.version is 16.4, and the image has PostgreSQL 15.18: set spec.image to an image of version 16"
	if err := a.createData(object, nil)(t.Context()); err == nil || err.Error() != want {
		t.Errorf("initdb: %v", err)
	}
	if err := a.valid(object); err == nil || err.Error() != want {
		t.Errorf("valid: %v", err)
	}
	for _, version := range []string{"15", "15.4"} {
		object.Spec.Version = version
		if err := a.sameMajor(object); err != nil {
			t.Errorf("%s: %v", version, err)
		}
	}
}
