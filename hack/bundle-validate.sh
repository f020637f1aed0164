#!/usr/bin/env bash
# Checks the bundle by every suite that operator-sdk has; a warning fails it like an error, by the JSON that it prints.
set -euo pipefail
# shellcheck source=hack/shell.sh
source "$(dirname "${BASH_SOURCE[0]}")/shell.sh"

sdk=$(tool operator-sdk operator-sdk)
mkdir -p dist/logs
failed=''
for check in suite=operatorframework name=operatorhub name=good-practices; do
  log=dist/logs/bundle-validate-${check#*=}.json
  "$sdk" bundle validate ./bundle --select-optional "$check" -o json-alpha1 >"$log" 2>"$log.err" || true
  # operatorhub is an older name of what suite=operatorframework holds, and says so in a warning of its own.
  sed -i '/validator is deprecated; for equivalent validation use/d' "$log"
  if ! grep -q '"passed": true' "$log" || grep -qE '"message": "(Warning|Error)' "$log"; then
    failed="$failed $check"
    cat "$log" "$log.err"
  else
    echo "bundle validate $check: no error, no warning"
  fi
done
[ -z "$failed" ] || die "the bundle is not clean by:$failed (see above; config/manifests and the markers in api/ are its sources)"
hack/multiarch.sh
