//go:build tools

// Package tools pins the tools of the supply chain: cyclonedx-gomod (SBOM) and govulncheck.
package tools

import (
	_ "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod"
	_ "golang.org/x/vuln/cmd/govulncheck"
)
