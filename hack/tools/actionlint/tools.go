//go:build tools

// Package tools pins actionlint, which checks the workflows in .github.
package tools

import _ "github.com/rhysd/actionlint/cmd/actionlint"
