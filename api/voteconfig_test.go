package api_test

import (
	"fmt"
	"strings"
)

var voteConfigRules = []rule{
	{[]string{`title: "Vote: 100% of us? 🐱"`}, []string{`title: "a\nb"`, `title: "a\tb"`, `title: " "`, `title: "\u00a0"`, `title: "a\u2028b"`},
		"spec.title", "title: must have a visible character, and no line break"},
	{[]string{`title: ` + strings.Repeat("ö", 200)}, []string{`title: ` + strings.Repeat("a", 201)}, "spec.title", "may not be more than 200"},
	{nil, []string{`title: ""`}, "spec.title", "at least 1"},
	{[]string{`resultsTitle: "Who won?"`}, []string{`resultsTitle: "a\rb"`, `resultsTitle: "\u200b"`},
		"spec.resultsTitle", "resultsTitle: must have a visible character, and no line break"},
	{[]string{`resultsTitle: ` + strings.Repeat("a", 200)}, []string{`resultsTitle: ` + strings.Repeat("a", 201)}, "spec.resultsTitle", "may not be more than 200"},
	{nil, []string{`resultsTitle: ""`}, "spec.resultsTitle", "at least 1"},

	{[]string{options(2), options(10)}, []string{options(0), options(1)}, "spec.options", "options in body should have at least 2 items"},
	{nil, []string{options(11)}, "spec.options", "must have at most 10 items"},
	{nil, []string{`options: [{id: a, label: Cats}, {id: a, label: Dogs}]`}, "spec.options[1]", `Duplicate value: {"id":"a"}`},
	{[]string{option("id: z")}, []string{option("id: A"), option(`id: "1"`), option(`id: ""`)}, "spec.options[0].id", "id in body should match '^[a-z]$'"},
	{nil, []string{option("id: ab")}, "spec.options[0].id", "may not be more than 1"},
	{[]string{option(`label: "Cats: 🐈‍⬛ & \"co\" 'x' = $(Y) 100%"`), option("label: " + strings.Repeat("é", 50)), option("label: x")},
		[]string{option(`label: "Cats\nDogs"`), option(`label: "a\u0000b"`), option(`label: "a\u009fb"`), option(`label: "a\u2029b"`), option(`label: "  "`)},
		"spec.options[0].label", "label: must have a visible character, and no line break"},
	{nil, []string{option("label: " + strings.Repeat("é", 51))}, "spec.options[0].label", "may not be more than 50"},
	{nil, []string{option(`label: ""`)}, "spec.options[0].label", "at least 1"},
	{[]string{option(`color: "#FF6B6B"`), option(`color: "#ff6b6b"`)}, []string{option(`color: red`), option(`color: "#FFF"`), option(`color: "#GGGGGG"`), option(`color: ""`)},
		"spec.options[0].color", "color in body should match '^#[0-9A-Fa-f]{6}$'"},
	{nil, []string{option(`color: "#FF6B6B0"`)}, "spec.options[0].color", "may not be more than 7"},

	{[]string{`maxVotesPerUser: 1`, `maxVotesPerUser: 1000000`}, []string{`maxVotesPerUser: 0`, `maxVotesPerUser: -1`},
		"spec.maxVotesPerUser", "greater than or equal to 1"},
	{nil, []string{`maxVotesPerUser: 1000001`}, "spec.maxVotesPerUser", "less than or equal to 1000000"},
	{[]string{`target: {configMapName: my.settings-1}`}, []string{`target: {configMapName: My}`, `target: {configMapName: -a}`, `target: {configMapName: a..b}`},
		"spec.target.configMapName", "should match"},
	{nil, []string{`target: {configMapName: ""}`}, "spec.target.configMapName", "at least 1"},
	{nil, []string{`target: {configMapName: ` + strings.Repeat("a", 254) + `}`}, "spec.target.configMapName", "may not be more than 253"},
	{[]string{`target: {mode: Env}`, `target: {mode: Mount}`, `target: {mode: None}`}, []string{`target: {mode: Reload}`}, "spec.target.mode", "supported values"},
	{[]string{`target: {deployments: [vote, result]}`}, []string{`target: {deployments: [vote, vote]}`}, "spec.target.deployments[1]", "Duplicate value"},
	{nil, []string{`target: {deployments: [""]}`}, "spec.target.deployments[0]", "at least 1"},
	{nil, []string{`target: {deployments: [` + strings.Repeat("a", 254) + `]}`}, "spec.target.deployments[0]", "may not be more than 253"},
	{nil, []string{`target: {deployments: [` + strings.Join(numbered(51), ", ") + `]}`}, "spec.target.deployments", "must have at most 50 items"},
	{[]string{`paused: true`}, []string{`pause: true`}, "spec.pause", "unknown field"},
}

var voteConfigChanges = []change{
	{``, `target: {configMapName: vote-config}`, []string{`target: {configMapName: other}`}, "target.configMapName: can't be changed"},
	{`target: {configMapName: vote-config}`, `target: {mode: Mount}`, nil, ""},
	{`target: {configMapName: other}`, `target: {configMapName: other, mode: None}`, []string{`target: {}`, `target: {configMapName: another}`}, "target.configMapName: can't be changed"},
}

func numbered(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("d%d", i)
	}
	return out
}

// options is a spec of so many options.
func options(n int) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf("{id: %c, label: Option %d}", 'a'+i, i)
	}
	return "options: [" + strings.Join(items, ", ") + "]"
}

// option is a spec whose first option has that field, and else nothing wrong.
func option(field string) string {
	name, _, _ := strings.Cut(field, ":")
	for _, required := range []string{"id: c", "label: Birds"} {
		if !strings.HasPrefix(required, name+":") {
			field += ", " + required
		}
	}
	return "options: [{" + field + "}, {id: b, label: Dogs}]"
}
