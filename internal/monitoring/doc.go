// Package monitoring has the operator's own metrics, in addition to those of controller-runtime.
//
// The number of series depends on the number of namespaces with objects, not on the number of objects. A namespace's series
// are removed with its last object. Only the opt-in gauge fettle_resource_ready has a series for each object, and
// fettle_postgresql_agent_outdated one for each PostgreSQL with outdated agents.
package monitoring
