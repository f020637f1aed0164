package api_test

import "strings"

const (
	badKey    = "{\"a b\": x}"
	dottedKey = "{.a: x}"
)

var appConfigRules = []rule{
	{[]string{`{config: {a: x}, files: {b: x}}`}, []string{`{config: {a: x}, files: {a: x}}`},
		"spec", "files: a name may not be a key of spec.config too"},
	{[]string{`{config: null, files: {a: x}}`}, []string{`config: null`, `{config: {}, files: {}}`},
		"spec", "config, files: there is nothing to render"},
	{[]string{`{rollback: {}, target: {historyLimit: 1}}`}, []string{`{rollback: {}, target: {historyLimit: 0}}`},
		"spec", "rollback: there is nothing to go back to"},
	{[]string{`{rollout: {autoRollback: true}}`}, []string{`{rollout: {autoRollback: true}, target: {historyLimit: 0}}`},
		"spec", "rollout.autoRollback: there is nothing to go back to"},
	{[]string{`application: a-1`}, []string{`application: A`, `application: a.b`, `application: -a`},
		"spec.application", "application: must be a DNS label"},
	{[]string{`config: {A_b-c.1: x}`}, []string{`config: ` + badKey, `config: ` + dottedKey, `config: {` + strings.Repeat("a", 254) + `: x}`},
		"spec.config", "config: each key consists of"},
	{[]string{`values: {.a-b_c: x}`}, []string{`values: ` + badKey}, "spec.values", "values: each name consists of"},
	{[]string{`files: {app.yaml: x}`}, []string{`files: ` + badKey, `files: {..: x}`}, "spec.files", "files: each name consists of"},
	{[]string{`environments: {prod: {config: {a: x}, files: {b: x}}}`}, []string{`environments: {prod: {config: {a: x}, files: {a: x}}}`},
		"spec.environments.prod", "files: a name may not be a key of config too"},
	{[]string{`environments: {dev: {values: {a: x}}}`}, []string{`environments: {dev: {values: ` + badKey + `}}`},
		"spec.environments.dev.values", "values: each name consists of"},
	{[]string{`environments: {staging: {config: {a: x}}}`}, []string{`environments: {staging: {config: ` + dottedKey + `}}`},
		"spec.environments.staging.config", "config: each key consists of"},
	{[]string{`environments: {prod: {files: {a: x}}}`}, []string{`environments: {prod: {files: ` + badKey + `}}`},
		"spec.environments.prod.files", "files: each name consists of"},
	{[]string{`valuesFrom: [{secretRef: {name: a}}, {configMapRef: {name: a}}]`},
		[]string{`valuesFrom: [{}]`, `valuesFrom: [{secretRef: {name: a}, configMapRef: {name: a}}]`},
		"spec.valuesFrom[0]", "valuesFrom: set exactly one of"},
	{[]string{`{target: {name: mine}, valuesFrom: [{configMapRef: {name: shop-config}}, {secretRef: {name: shop-config}}]}`},
		[]string{`valuesFrom: [{configMapRef: {name: a}}, {configMapRef: {name: shop-config}}]`, `valuesFrom: [{secretRef: {name: shop-config}}]`,
			`{target: {name: mine}, valuesFrom: [{configMapRef: {name: mine}}]}`},
		"spec", "valuesFrom: an AppConfig can't take values from what it publishes itself"},
	{[]string{`valuesFrom: [{secretRef: {name: a}, prefix: db_}]`}, []string{`valuesFrom: [{secretRef: {name: a}, prefix: "db "}]`},
		"spec.valuesFrom[0].prefix", "prefix: consists of"},
	{[]string{`{schema: {files: {a.json: {type: object}}}}`}, []string{`{schema: {files: {a.txt: {type: object}}}}`},
		"spec.schema.files", "files: only files that end in"},
	{[]string{`target: {name: a.b-1}`}, []string{`target: {name: A}`, `target: {name: a..b}`, `target: {name: a-}`},
		"spec.target.name", "name: must be a DNS name"},
	{[]string{`target: {labels: {team: a}}`}, []string{`target: {labels: {fettle.dev/owner-name: a}}`, `target: {labels: {app.kubernetes.io/name: a}}`},
		"spec.target.labels", "labels: those of fettle.dev"},
	{[]string{`target: {annotations: {example.com/a: a}}`}, []string{`target: {annotations: {config.fettle.dev/hash: a}}`},
		"spec.target.annotations", "annotations: those of fettle.dev"},
	{[]string{`rollout: {discovery: Selector, selector: {matchLabels: {a: b}}}`}, []string{`rollout: {discovery: Selector}`, `rollout: {selector: {}}`},
		"spec.rollout", "selector: set it if, and only if"},
	{[]string{`rollout: {debounce: 0s}`}, []string{`rollout: {debounce: 2h}`, `rollout: {debounce: -1s}`}, "spec.rollout.debounce", "debounce: must be a duration"},
	{[]string{`rollout: {minInterval: 24h}`}, []string{`rollout: {minInterval: 25h}`}, "spec.rollout.minInterval", "minInterval: must be a duration"},
	{[]string{`rollout: {progressDeadline: 10s}`}, []string{`rollout: {progressDeadline: 9s}`, `rollout: {progressDeadline: 25h}`},
		"spec.rollout.progressDeadline", "progressDeadline: must be a duration"},
	{[]string{`rollout: {window: {schedule: "0 2 * * 1-5", duration: 2h}}`},
		[]string{`rollout: {window: {schedule: "every night", duration: 2h}}`, `rollout: {window: {schedule: "0 2 * * * *", duration: 2h}}`, `rollout: {window: {schedule: "TZ=UTC 0 2 * * *", duration: 2h}}`},
		"spec.rollout.window.schedule", "schedule: must have five fields"},
	{[]string{`rollout: {window: {schedule: "*/5 2 * JAN MON", duration: 1m}}`}, []string{`rollout: {window: {schedule: "0 2 * * *", duration: 59s}}`},
		"spec.rollout.window.duration", "duration: must be a duration"},
	{[]string{`rollout: {window: {schedule: "0 2 * * *", duration: 1m, timeZone: America/Argentina/Salta}}`},
		[]string{`rollout: {window: {schedule: "0 2 * * *", duration: 1m, timeZone: "../etc"}}`, `rollout: {window: {schedule: "0 2 * * *", duration: 1m, timeZone: "+1"}}`},
		"spec.rollout.window.timeZone", "timeZone: must be a name"},
}

var appConfigChanges = []change{
	{`{target: {name: a}}`, `{application: other, environment: prod, target: {name: a, historyLimit: 0}, config: {B: x}}`, nil, ""},
	{``, `environment: prod`, []string{`application: other`, `target: {name: a}`}, "target.name, application: the name of what is published can't be changed"},
	{`target: {name: a}`, `target: {name: a}`, []string{`target: {name: b}`, ``}, "target.name, application: the name of what is published can't be changed"},
	{``, `target: {mode: InPlace}`, []string{`target: {mode: Versioned}`}, "mode: can't be changed"},
}
