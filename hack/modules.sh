#!/usr/bin/env bash
# Fetches the Go modules that the project, its tests and its tools in Go need. A cold cache takes thousands of requests, and
# a test whose package can't be fetched looks like one that fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
for module in . hack test/alerts; do
  hack/retry.sh go -C $module list -deps -test ./... >/dev/null
done
