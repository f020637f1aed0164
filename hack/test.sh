#!/usr/bin/env bash
# Runs all tests that need no cluster: unit tests, golden files, controller tests on an API server and etcd, fault-injection
# tests, tests with real PostgreSQL servers, alert tests with Prometheus, tests of the Helm chart, and the tests of hack/.
# Logs are in dist/logs.
# With the arguments `race [PACKAGE...]` it runs the tests of concurrent code with Go's race detector.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [ -z "${FETTLE_TEST_SERVER:-}" ]; then # all test packages share one API server, which stops at the end
  KUBEBUILDER_ASSETS=$(hack/tools/bin kubernetes)
  export KUBEBUILDER_ASSETS
  exec go run ./internal/testenv/shared-apiserver "hack/${BASH_SOURCE[0]##*/}" "$@"
fi
mkdir -p dist/logs
failed='' took=''

# suite NAME COMMAND...: runs a suite with a log in dist/logs. A failure does not stop the following suites.
suite() {
  local name=$1 started=$SECONDS
  shift
  echo "=== $name (log: dist/logs/$name.log)"
  "$@" 2>&1 | tee "dist/logs/$name.log" || failed="$failed $name"
  took+="$name $((SECONDS - started)) s. "
  echo "--- $name: $((SECONDS - started)) s"
}

# finish: prints the result and exits with 1 after a failure.
finish() {
  if [ -n "$failed" ]; then
    echo "FAILED:$failed (logs in dist/logs)"
    exit 1
  fi
  echo "All tests passed in $SECONDS s; logs in dist/logs."
}

hack/postgres.sh
FETTLE_DATABASES=$(hack/databases.sh)
export FETTLE_DATABASES
FETTLE_STORES=$(hack/tools/bin stores):$(hack/azurite.sh) # object stores
export FETTLE_STORES
if [ "${1:-}" = race ]; then
  shift
  [ $# -gt 0 ] || set -- ./internal/... ./controllers/... ./test/acks ./test/postgres
  export CGO_ENABLED=1 # the race detector needs cgo
  # test/postgres starts its agents from the same binary: a race in an agent fails the test.
  suite race go test -race -p 1 -count=1 -timeout 60m -parallel 4 "$@"
  finish
  exit
fi
link=-ldflags=-w # debugging information takes a fifth of the time of linking
# make e2e runs the end-to-end tests. The fault-injection tests take longest, so they start first.
packages="./test/faults $(go list ./... | grep -vE '/controllers$|/test/(e2e|faults|postgres)$')"

# The specs of controllers/ mostly wait. They run in 4 processes, each with its own API server, beside the other packages.
specs=dist/logs/controllers.log
go run github.com/onsi/ginkgo/v2/ginkgo -procs=4 --no-color --timeout 30m ./controllers >$specs 2>&1 &
controllers=$!
# shellcheck disable=SC2086 # a list of packages
suite test go test $link -vet=off -p 2 -count=1 -timeout 30m $packages # make lint vets
echo "=== controllers (log: $specs)"
wait $controllers || failed="$failed controllers"
cat $specs
# These tests measure failure detection times, so no other test runs in parallel.
suite test-postgres go test $link -count=1 -timeout 25m -parallel 4 ./test/postgres
suite test-alerts go -C test/alerts test -count=1 -timeout 10m ./...
suite test-chart go -C test/chart test -count=1 -timeout 10m ./...
suite test-hack go -C hack test -count=1 -timeout 15m ./...

[ -n "$failed" ] || hack/record.sh "make test" $SECONDS "${took% }"
finish
