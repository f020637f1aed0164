#!/usr/bin/env bash
# Validates the bundle with all validators of operator-sdk. A warning counts as an error, so the script reads the JSON report.
set -euo pipefail
# shellcheck source=hack/shell.sh
source "$(dirname "${BASH_SOURCE[0]}")/shell.sh"

sdk=$(tool operator-sdk operator-sdk)
mkdir -p dist/logs
failed=''
for check in suite=operatorframework name=operatorhub name=good-practices; do
  log=dist/logs/bundle-validate-${check#*=}.json
  "$sdk" bundle validate ./bundle --select-optional "$check" -o json-alpha1 >"$log" 2>"$log.err" || true
  # operatorhub is deprecated: suite=operatorframework has the same validators. Its deprecation warning does not count.
  sed -i '/validator is deprecated; for equivalent validation use/d' "$log"
  if ! grep -q '"passed": true' "$log" || grep -qE '"message": "(Warning|Error)' "$log"; then
    failed="$failed $check"
    cat "$log" "$log.err"
  else
    echo "bundle validate $check: no error, no warning"
  fi
done
[ -z "$failed" ] || die "bundle validation failed:$failed (see above; fix config/manifests or the markers in api/, then run 'make bundle')"
# MULTIARCH=no leaves out the check that needs published images.
[ "${MULTIARCH:-yes}" = no ] || hack/multiarch.sh
