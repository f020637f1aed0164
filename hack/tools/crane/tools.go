//go:build tools

// Package tools pins crane, which builds and pushes images.
package tools

import (
	_ "github.com/google/go-containerregistry/cmd/crane"
)
