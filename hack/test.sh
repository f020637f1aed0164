#!/usr/bin/env bash
# Runs every test that needs no cluster: unit tests, golden files, behaviour tests on an API server and etcd, faults, real
# PostgreSQL servers, alerts in Prometheus, and the tests of hack/. Logs are kept in dist/logs.
# With the arguments `race [PACKAGE...]`: with Go's race detector, those of them that test concurrent code.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [ -z "${FETTLE_TEST_SERVER:-}" ]; then # one API server for all, and nothing left behind
  KUBEBUILDER_ASSETS=$(hack/tools/bin kubernetes)
  export KUBEBUILDER_ASSETS
  exec go run ./internal/testenv/shared-apiserver "hack/${BASH_SOURCE[0]##*/}" "$@"
fi
mkdir -p dist/logs
failed=''

# suite NAME COMMAND...: runs a suite, keeps its log and goes on with the next one if it fails.
suite() {
  local name=$1 started=$SECONDS
  shift
  echo "=== $name (log: dist/logs/$name.log)"
  "$@" 2>&1 | tee "dist/logs/$name.log" || failed="$failed $name"
  echo "--- $name: $((SECONDS - started)) s"
}

# finish prints the result.
finish() {
  if [ -n "$failed" ]; then
    echo "FAILED:$failed (logs in dist/logs)"
    exit 1
  fi
  echo "All tests passed in $SECONDS s; logs in dist/logs."
}

hack/postgres.sh
if [ "${1:-}" = race ]; then
  shift
  [ $# -gt 0 ] || set -- ./internal/... ./controllers/... ./test/acks ./test/postgres
  export CGO_ENABLED=1 # the detector is written in C
  # The agents of test/postgres are processes of the same program: a race in one of them fails its test.
  suite race go test -race -p 1 -count=1 -timeout 60m -parallel 4 "$@"
  finish
  exit
fi
# The end-to-end tests have a target of their own: make e2e.
packages=$(go list ./... | grep -vE '/test/(e2e|postgres)$')

# Most of the time is spent waiting for what must not happen, so more run at once than there are cores.
# shellcheck disable=SC2086 # a list of packages
suite test go test -p 3 -count=1 -timeout 30m $packages
# Failure detection by time: nothing else runs beside it.
suite test-postgres go test -count=1 -timeout 25m -parallel 4 ./test/postgres
suite test-alerts go -C test/alerts test -count=1 -timeout 10m ./...
suite test-hack go -C hack test -count=1 -timeout 15m ./...

finish
