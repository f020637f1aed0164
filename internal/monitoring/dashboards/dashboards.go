// Package dashboards has the Grafana dashboards that the operator creates.
package dashboards

import _ "embed" // the dashboards

// PostgreSQL is one dashboard for all PostgreSQL objects, selected by its variables, in Grafana's JSON format.
//
//go:embed postgresql.json
var PostgreSQL string
