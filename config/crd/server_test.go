package crd_test

import (
	"path/filepath"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
)

// The API server's own checks: schemas are structural, CEL rules compile and are cheap enough, defaults are valid.
func TestTheAPIServerAcceptsTheCRDs(t *testing.T) {
	files, err := filepath.Glob("bases/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files in bases/, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			crd := read(t, file)
			apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
			apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
			internal := &apiextensions.CustomResourceDefinition{}
			if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, internal, nil); err != nil {
				t.Fatal(err)
			}
			internal.Status.StoredVersions = []string{crd.Spec.Versions[0].Name}
			for _, finding := range validation.ValidateCustomResourceDefinition(t.Context(), internal) {
				t.Error(finding)
			}
		})
	}
}
