//go:build tools

// Package tools pins opm, which renders, validates and serves catalogs, and the probe that its image holds.
package tools

import (
	_ "github.com/grpc-ecosystem/grpc-health-probe"
	_ "github.com/operator-framework/operator-registry/cmd/opm"
)
