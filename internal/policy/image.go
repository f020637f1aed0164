package policy

import (
	"slices"
	"strings"
)

// What an image without a registry means: "nginx" is "docker.io/library/nginx".
const (
	defaultRegistry = "docker.io"
	legacyRegistry  = "index.docker.io"
	officialImages  = "library/"
)

// listed is how many registries a message names.
const listed = 5

func allowedBy(prefixes []string, image string) bool {
	full := fullName(image)
	return slices.ContainsFunc(prefixes, func(prefix string) bool {
		registry, rest := splitRegistry(prefix)
		return strings.HasPrefix(full, registry+"/"+rest)
	})
}

// fullName spells out what container runtimes take an image reference for.
func fullName(image string) string {
	registry, rest := splitRegistry(image)
	if registry == defaultRegistry && !strings.Contains(rest, "/") {
		rest = officialImages + rest
	}
	return registry + "/" + rest
}

// splitRegistry tells the registry from the rest by the rule of container runtimes: what stands before the first "/" is
// one if it has a ".", a ":" or a capital, or is localhost. Names of hosts have no case.
func splitRegistry(name string) (registry, rest string) {
	first, rest, found := strings.Cut(name, "/")
	host := strings.ContainsAny(first, ".:") || first == "localhost" || strings.ToLower(first) != first
	if !found || !host {
		return defaultRegistry, name
	}
	registry = strings.ToLower(first)
	if registry == legacyRegistry {
		registry = defaultRegistry
	}
	return registry, rest
}

func list(prefixes []string) string {
	if len(prefixes) > listed {
		prefixes = append(slices.Clone(prefixes[:listed]), "others")
	}
	return strings.Join(prefixes, ", ")
}
