#!/usr/bin/env bash
# Downloads the Go modules of the project, its tests and its tools, with retries. A cold cache needs thousands of requests,
# and a failed download in `go test` looks like a failed test.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
for module in . hack test/alerts test/chart; do
  hack/retry.sh go -C $module list -deps -test ./... >/dev/null
done
