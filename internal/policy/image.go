package policy

import (
	"slices"
	"strings"

	"github.com/distribution/reference"
	"k8s.io/utils/lru"
)

// listed is how many registries a message names.
const listed = 5

// names caches [fullName]: a count of violations asks for each prefix as often as there are WebApps.
var names = lru.New(4096)

func allowedBy(prefixes []string, image string) bool {
	full := fullName(image)
	return full != "" && slices.ContainsFunc(prefixes, func(prefix string) bool {
		const name = "any/name" // makes the prefix a reference, of no official image
		allowed := fullName(prefix + name)
		return allowed != "" && strings.HasPrefix(full, strings.TrimSuffix(allowed, name))
	})
}

// fullName spells out, without tag and digest, what container runtimes take an image reference for: "nginx" is
// "docker.io/library/nginx". Names of hosts have no case. It returns "" for what is no reference.
func fullName(image string) string {
	if known, ok := names.Get(image); ok {
		return known.(string)
	}
	full := ""
	if named, err := reference.ParseNormalizedNamed(image); err == nil {
		full = strings.ToLower(reference.Domain(named)) + "/" + reference.Path(named)
	}
	names.Add(image, full)
	return full
}

func list(prefixes []string) string {
	if len(prefixes) > listed {
		prefixes = append(slices.Clone(prefixes[:listed]), "others")
	}
	return strings.Join(prefixes, ", ")
}
