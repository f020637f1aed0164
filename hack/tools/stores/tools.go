//go:build tools

// Package tools pins the object stores of the tests: versitygw (S3) and fake-gcs-server (Google Cloud Storage).
package tools

import (
	_ "github.com/fsouza/fake-gcs-server"
	_ "github.com/versity/versitygw/cmd/versitygw"
)
