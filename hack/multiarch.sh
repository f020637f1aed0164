#!/usr/bin/env bash
# Runs operator-sdk's validator multiarch: the bundle's architecture labels must match the architectures of its images.
# The validator inspects the images with podman, in a temporary store. podman pulls them from the local cluster's registry,
# or from the public registry with CLUSTER=existing.
set -euo pipefail
# shellcheck source=hack/shell.sh
source "$(dirname "${BASH_SOURCE[0]}")/shell.sh"

log=$root/dist/logs/bundle-validate-multiarch.json
mkdir -p dist/logs
rm -f "$log"
if ! command -v podman >/dev/null; then
  die "bundle validate name=multiarch: podman is not installed (apt-get install podman)"
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '[storage]\ndriver = "vfs"\ngraphroot = "%s/graph"\nrunroot = "%s/run"\n' "$work" "$work" >"$work/storage.conf"
export CONTAINERS_STORAGE_CONF=$work/storage.conf
if [ "${CLUSTER:-local}" != existing ]; then
  if ! curl -fs --max-time 5 --cacert "$state/pki/ca.crt" "https://${REGISTRY:-172.30.0.1:5000}/v2/" >/dev/null; then
    die "bundle validate name=multiarch: the local cluster's registry is unreachable (make up image)"
  fi
  printf 'unqualified-search-registries = []\n[[registry]]\nprefix = "%s"\nlocation = "%s"\n' \
    "$(cut -d/ -f1 <<<"${IMAGE_BASE:-ghcr.io/fettle-dev/fettle}")" "${REGISTRY:-172.30.0.1:5000}" >"$work/registries.conf"
  export CONTAINERS_REGISTRIES_CONF=$work/registries.conf SSL_CERT_FILE=$state/pki/ca.crt
fi
"$(tool operator-sdk operator-sdk)" bundle validate ./bundle --select-optional name=multiarch \
  --optional-values=container-tools=podman -o json-alpha1 >"$log" 2>"$log.err" || true
if ! grep -q '"passed": true' "$log" || grep -qE '"message": "(Warning|Error)' "$log"; then
  cat "$log" "$log.err"
  die "the bundle's architecture labels do not match its images (see config/manifests/bases and config/manager)"
fi
echo "bundle validate name=multiarch: no error, no warning"
