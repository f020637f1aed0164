// Package monitoring holds the operator's own metrics, besides those of controller-runtime.
//
// Series are bounded by the number of namespaces that have objects, not by the number of objects, and go when the last
// object of a namespace goes. Only the opt-in gauge fettle_resource_ready has a series for each object, and
// fettle_postgresql_agent_outdated one for each PostgreSQL that has outdated agents.
package monitoring
