package webapp

import "testing"

// TestObjectOf_deletedMeanwhile: an object that is gone, and that the cache still has, restarts no pods that need it.
func TestObjectOf_deletedMeanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		cached        string
		found         contents
		known, exists bool
	}{
		"there":                      {"u/1", contents{version: "u/1"}, true, true},
		"changed meanwhile":          {"u/1", contents{version: "u/2"}, true, true},
		"deleted, the cache behind":  {"u/1", contents{}, false, false},
		"deleted":                    {"", contents{}, true, false},
		"published, by another kind": {"u/1", contents{version: "u/2", publisher: "settings"}, false, false},
	} {
		o := objectOf(kindConfigMap, "settings", c.cached, c.found)
		if (o != nil) != c.known || o != nil && o.Exists != c.exists {
			t.Errorf("%s: %+v", name, o)
		}
	}
}
