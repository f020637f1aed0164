#!/usr/bin/env bash
# Runs the suites basic and olm of operator-sdk's scorecard on the cluster and fails unless every test passes.
set -euo pipefail
# shellcheck source=hack/shell.sh
source "$(dirname "${BASH_SOURCE[0]}")/shell.sh"

ns=fettle-scorecard arguments=()
if [ "${CLUSTER:-local}" != existing ]; then
  # This image unpacks the bundle. The default image is pinned by a digest, which a local registry cannot provide.
  arguments=(--untar-image quay.io/operator-framework/scorecard-untar:latest)
  step "image of the scorecard tests"
  hack/image/stand-ins.sh scorecard-test
fi
mkdir -p dist/logs
kubectl create namespace $ns --dry-run=client -o yaml | kubectl apply -f - >/dev/null
step "suites basic and olm (log: dist/logs/scorecard.log)"
ok=yes
"$(tool operator-sdk operator-sdk)" scorecard bundle --namespace $ns --wait-time 180s --output text "${arguments[@]}" \
  >dist/logs/scorecard.log 2>&1 || ok=no
awk '/^Entrypoint:/ {test = $3; sub(/]$/, "", test)} /State:/ {printf "        %-28s %s\n", test, $2}' dist/logs/scorecard.log
passed=$(grep -c 'State: pass' dist/logs/scorecard.log || true)
kubectl delete namespace $ns >/dev/null
[ $ok = yes ] && [ "$passed" -ge 6 ] || die "a scorecard test failed, or fewer than the 6 of both suites ran: see dist/logs/scorecard.log"
step "scorecard: $passed tests passed"
