// Package dashboards holds the dashboards that are made at run time, for Grafana.
package dashboards

import _ "embed" // the dashboards

// PostgreSQL is one dashboard for all PostgreSQLs, which its variables choose from: JSON as Grafana imports it.
//
//go:embed postgresql.json
var PostgreSQL string
