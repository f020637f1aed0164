// Package admission holds what the API server enforces on Fettle's behalf, as the operator applies it.
package admission

import (
	"bytes"
	_ "embed" // for the manifests
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

//go:embed agents.yaml
var agents []byte

// Objects are the policies and their bindings, without an owner.
func Objects() ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(agents), 1<<10); ; {
		u := &unstructured.Unstructured{}
		err := decoder.Decode(u)
		switch {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, fmt.Errorf("read the admission policies: %w", err)
		case len(u.Object) > 0:
			objects = append(objects, u)
		}
	}
}
