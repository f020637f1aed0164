#!/usr/bin/env bash
# Runs the end-to-end tests: creates the local cluster, builds and pushes the images, installs Fettle with OLM, runs the suite.
# POSTGRES_VERSION sets the PostgreSQL version of most specs: a version listed by `hack/image/stand-ins.sh list`.
set -euo pipefail
# shellcheck source=hack/shell.sh
source "$(dirname "${BASH_SOURCE[0]}")/shell.sh"

if [ "${CLUSTER:-local}" != existing ]; then
  hack/browser.sh
  step "local cluster"
  hack/cluster.sh up
  for image in operator bundle catalog voteapp shop; do step "$(hack/image.sh $image)"; done
  if [ -n "${POSTGRES_VERSION:-}" ]; then
    hack/image/stand-ins.sh "postgres-$POSTGRES_VERSION"
  fi
fi
hack/olm-install.sh

mkdir -p dist/logs
rm -rf dist/logs/e2e
step "end-to-end tests (log: dist/logs/e2e.log)"
# shellcheck disable=SC2086 # TEST_ARGS is a list
E2E_REPORT_DIR=$root/dist/logs go test -count=1 -v -timeout "${E2E_TIMEOUT:-65m}" ./test/e2e ${TEST_ARGS:-} 2>&1 | tee dist/logs/e2e.log || {
  mkdir -p dist/logs/e2e
  kubectl -n fettle-system logs -l app.kubernetes.io/component=manager --tail=-1 --prefix >dist/logs/e2e/manager.log 2>&1 || true
  kubectl get webapps,deployments,pods -A -o wide >dist/logs/e2e/objects.txt 2>&1 || true
  kubectl get events -A --sort-by=.lastTimestamp >dist/logs/e2e/events.txt 2>&1 || true
  die "the end-to-end tests failed; see dist/logs/e2e for the operator's log, objects and events"
}
[ -n "${TEST_ARGS:-}" ] || [ "${CLUSTER:-local}" = existing ] || hack/record.sh "make e2e" $SECONDS
step "end-to-end tests passed"
