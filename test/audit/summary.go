package audit

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// Key is the group in which requests are counted.
type Key struct {
	User        string
	Class       Class
	Verb        string
	Resource    string
	Subresource string
	Namespace   string
	Name        string
}

// Count is the number of requests, and of rejected ones.
type Count struct {
	Requests int
	Rejected int
}

// Summary is the result of a Recorder.
type Summary struct {
	Filter Filter
	Counts map[Key]Count
}

func (s *Summary) add(r Request) {
	if s.Counts == nil {
		s.Counts = map[Key]Count{}
	}
	key := Key{r.User, r.Class, r.Verb, r.Resource, r.Subresource, r.Namespace, r.Name}
	count := s.Counts[key]
	count.Requests++
	if r.Rejected() {
		count.Rejected++
	}
	s.Counts[key] = count
}

// Of counts the requests of some classes.
func (s Summary) Of(classes ...Class) int {
	total := 0
	for key, count := range s.Counts {
		if slices.Contains(classes, key.Class) {
			total += count.Requests
		}
	}
	return total
}

// Writes counts all changes and attempted changes, without leases and events.
func (s Summary) Writes() int { return s.Of(Write) }

// LiveReads counts gets and lists that bypassed the cache.
func (s Summary) LiveReads() int { return s.Of(LiveRead) }

// Where returns the requests for which keep is true.
func (s Summary) Where(keep func(Key) bool) Summary {
	chosen := Summary{Filter: s.Filter, Counts: map[Key]Count{}}
	for key, count := range s.Counts {
		if keep(key) {
			chosen.Counts[key] = count
		}
	}
	return chosen
}

// String is a table with a line for each user, class, verb and resource.
func (s Summary) String() string {
	type row struct{ user, class, verb, resource string }
	rows, names := map[row]Count{}, map[row][]string{}
	for key, count := range s.Counts {
		resource := key.Resource
		if key.Subresource != "" {
			resource += "/" + key.Subresource
		}
		at := row{key.User, string(key.Class), key.Verb, resource}
		sum := rows[at]
		rows[at] = Count{sum.Requests + count.Requests, sum.Rejected + count.Rejected}
		if key.Name != "" {
			names[at] = append(names[at], key.Name)
		}
	}
	if len(rows) == 0 {
		return "no requests\n"
	}
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	lines := []string{"USER\tCLASS\tVERB\tRESOURCE\tREQUESTS\tREJECTED\tOBJECTS"}
	sorted := slices.SortedFunc(maps.Keys(rows), func(a, b row) int {
		return cmp.Or(cmp.Compare(a.user, b.user), cmp.Compare(a.class, b.class), cmp.Compare(a.resource, b.resource), cmp.Compare(a.verb, b.verb))
	})
	for _, at := range sorted {
		lines = append(lines, fmt.Sprintf("%s\t%s\t%s\t%s\t%d\t%d\t%s", at.user, at.class, at.verb, at.resource,
			rows[at].Requests, rows[at].Rejected, abbreviate(names[at])))
	}
	_, _ = io.WriteString(table, strings.Join(lines, "\n")+"\n") // a strings.Builder returns no errors
	_ = table.Flush()
	return text.String()
}

// abbreviate names a few objects and the number of the others.
func abbreviate(names []string) string {
	const shown = 3
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) <= shown {
		return strings.Join(names, " ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], " "), len(names)-shown)
}
