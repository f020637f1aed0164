package apply

import (
	"slices"

	"k8s.io/utils/lru"
)

// maxMutations bounds how many objects are remembered whose fields admission mutates. Forgetting one costs a redundant write.
const maxMutations = 4096

// mutations remembers the fields that the API server did not store as applied, by object. Losing it does no harm.
type mutations struct{ byID *lru.Cache }

type mutation struct {
	hash  string
	paths []string
}

func newMutations() mutations { return mutations{lru.New(maxMutations)} }

// record records the paths at which the API server stored different values than were applied with that hash. No paths means that it stored
// all values.
func (m mutations) record(id ObjectID, hash string, paths []string) {
	m.byID.Remove(id)
	if len(paths) > 0 {
		m.byID.Add(id, mutation{hash, paths})
	}
}

// always reports whether applying the object with that hash is known to change none of the paths.
func (m mutations) always(id ObjectID, hash string, paths []string) bool {
	last, _ := m.byID.Get(id)
	known, _ := last.(mutation)
	return known.hash == hash && !slices.ContainsFunc(paths, func(p string) bool { return !slices.Contains(known.paths, p) })
}
