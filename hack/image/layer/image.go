package layer

import (
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// Image appends the sets to base, one layer each, and sets the configuration. A nil base means scratch. The image's platform is linux
// with the given architecture (amd64, arm64).
func Image(base v1.Image, arch string, config func(*v1.Config), sets ...Set) (v1.Image, error) {
	if base == nil {
		base = empty.Image
	}
	for _, set := range sets {
		if len(set) == 0 {
			continue
		}
		l, err := set.Layer()
		if err != nil {
			return nil, err
		}
		addition := mutate.Addendum{Layer: l, History: v1.History{Created: v1.Time{Time: Epoch}, CreatedBy: "fettle hack/image"}}
		if base, err = mutate.Append(base, addition); err != nil {
			return nil, err
		}
	}
	file, err := base.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.Created, file.OS, file.Architecture = v1.Time{Time: Epoch}, "linux", arch
	if config != nil {
		config(&file.Config)
	}
	return mutate.ConfigFile(base, file)
}
