package stack

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/conditions"
)

func TestNext(t *testing.T) {
	up := State{Exists: true, Asked: true, Ready: conditions.True("", "")}
	down := State{Exists: true, Asked: true, Ready: conditions.False("Down", "")}
	old := State{Exists: true, Ready: conditions.True("", "")}
	published := State{Exists: true, Asked: true, Usable: true, Ready: conditions.False("RollingOut", "")}
	failed := State{Exists: true, Asked: true, Ready: conditions.True("", ""), Failed: fmt.Errorf("rejected")}
	for name, c := range map[string]struct {
		component Component
		asked     bool
		seen      map[string]State
		step      Step
		waitsFor  string
	}{
		"nothing needed":                                   {Component{}, false, nil, Apply, ""},
		"what is needed is ready":                          {Component{DependsOn: []string{"a", "b"}}, false, map[string]State{"a": up, "b": up}, Apply, ""},
		"what is needed is not ready":                      {Component{DependsOn: []string{"a", "b"}}, false, map[string]State{"a": up, "b": down}, Wait, "b"},
		"the first that is not ready":                      {Component{DependsOn: []string{"a", "b"}}, false, map[string]State{"a": down, "b": down}, Wait, "a"},
		"ready, but not in the version that was asked for": {Component{DependsOn: []string{"a"}}, false, map[string]State{"a": old}, Wait, "a"},
		"ready, but its last version was rejected":         {Component{DependsOn: []string{"a"}}, false, map[string]State{"a": failed}, Wait, "a"},
		"published, although not rolled out":               {Component{DependsOn: []string{"a"}}, false, map[string]State{"a": published}, Apply, ""},
		"it does not exist":                                {Component{DependsOn: []string{"a"}}, false, map[string]State{}, Wait, "a"},
		"only repairs while what is needed is not ready":   {Component{DependsOn: []string{"a"}}, true, map[string]State{"a": down}, Apply, ""},
		"suspended": {Component{Suspended: true}, false, nil, Leave, ""},
		"external":  {Component{Kind: KindExternal}, false, nil, Leave, ""},
		"suspended, and what it needs is not ready: unchanged": {Component{Suspended: true, DependsOn: []string{"a"}}, true, map[string]State{"a": down}, Leave, ""},
	} {
		if step, waitsFor := Next(&c.component, c.asked, c.seen); step != c.step || waitsFor != c.waitsFor {
			t.Errorf("%s: %d, %q; want %d, %q", name, step, waitsFor, c.step, c.waitsFor)
		}
	}
}

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// childrenFrom makes children from texts such as "backend: db cache". "-5s" after the name says since when it is being deleted.
func childrenFrom(texts ...string) (children []Child) {
	for _, text := range texts {
		name, deps, _ := strings.Cut(text, ":")
		name, age, deleting := strings.Cut(name, "-")
		app := &appsv1.WebApp{}
		if deleting {
			d, err := time.ParseDuration(age)
			if err != nil {
				panic(err)
			}
			app.DeletionTimestamp = new(metav1.NewTime(noon.Add(-d)))
		}
		children = append(children, Child{Component: name, Kind: KindWebApp, DependsOn: strings.Fields(deps), Object: app})
	}
	return children
}

func TestDeletable(t *testing.T) {
	for name, c := range map[string]struct {
		removed, children []string
		want              string
		next              time.Duration
	}{
		"dependants first":           {[]string{"db", "backend: db", "frontend: backend"}, nil, "[frontend]", 0},
		"the next":                   {[]string{"db", "backend: db"}, nil, "[backend]", 0},
		"one is being deleted":       {[]string{"db", "backend-5s: db"}, nil, "[]", 55 * time.Second},
		"its deletion takes long":    {[]string{"db", "backend-60s: db"}, nil, "[db]", 0},
		"independent ones":           {[]string{"a", "b"}, nil, "[a b]", 0},
		"one that stays needs it":    {[]string{"db"}, []string{"db", "backend: db"}, "[]", 0},
		"nothing that stays does":    {[]string{"db"}, []string{"db", "backend:"}, "[db]", 0},
		"they depend on each other":  {[]string{"a: b", "b: a"}, nil, "[a b]", 0},
		"and one that stays on them": {[]string{"a: b", "b: a"}, []string{"a: b", "b: a", "c: a"}, "[]", 0},
		"while one is being deleted": {[]string{"a: b", "b: a", "c-1s"}, nil, "[]", 59 * time.Second},
		"nothing":                    {nil, []string{"a"}, "[]", 0},
	} {
		removed, children := childrenFrom(c.removed...), childrenFrom(c.children...)
		if c.children == nil {
			children = removed
		}
		got, next := Deletable(removed, children, noon)
		names := []string{}
		for _, child := range got {
			names = append(names, child.Component)
		}
		if fmt.Sprint(names) != c.want || next != c.next {
			t.Errorf("%s: %v after %s, want %s after %s", name, names, next, c.want, c.next)
		}
	}
	replaced := childrenFrom("db")
	replaced[0].Replaced = true
	if got, _ := Deletable(replaced, append(childrenFrom("backend: db"), replaced...), noon); len(got) != 1 {
		t.Errorf("a component that changes its kind is not deleted while others depend on its name")
	}
}

// Whatever the graph, deletion ends, and no component is deleted while another one that can be deleted first depends on it.
func TestDeletable_ends(t *testing.T) {
	all := [][]string{
		{"db", "cache", "backend: cache db", "frontend: backend"},
		{"a: b", "b: c", "c: a"},
		{"a: b", "b: a", "x: a", "y: x"},
		{"a:", "b: a", "c: a b", "d: a b c"},
	}
	for _, texts := range all {
		left := childrenFrom(texts...)
		for range len(texts) {
			got, _ := Deletable(left, left, noon)
			if len(left) > 0 && len(got) == 0 {
				t.Fatalf("%v: nothing of %v can be deleted", texts, left)
			}
			left = slices.DeleteFunc(left, func(c Child) bool {
				return slices.ContainsFunc(got, func(g Child) bool { return g.Component == c.Component })
			})
		}
		if len(left) > 0 {
			t.Errorf("%v: %v is left", texts, left)
		}
	}
}

func TestRemoved(t *testing.T) {
	plan := &Plan{Components: []Component{{Name: "web", Kind: KindWebApp}, {Name: "db", Kind: KindPostgreSQL}}}
	removed := Removed(plan, childrenFrom("web", "db", "old"))
	if len(removed) != 2 || removed[0].Component != "db" || !removed[0].Replaced || removed[1].Component != "old" || removed[1].Replaced {
		t.Errorf("%+v", removed)
	}
	if all := Removed(nil, childrenFrom("web", "db")); len(all) != 2 || all[0].Replaced {
		t.Errorf("%+v", all)
	}
}
