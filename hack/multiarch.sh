#!/usr/bin/env bash
# Runs operator-sdk's check multiarch: the architectures that the bundle promises are those of its images. It inspects
# the images through podman (in a store of its own), which takes them from the local cluster's registry in place of the
# public one, or from the public one with CLUSTER=existing. Without podman it says so and checks nothing.
set -euo pipefail
# shellcheck source=hack/shell.sh
source "$(dirname "${BASH_SOURCE[0]}")/shell.sh"

log=$root/dist/logs/bundle-validate-multiarch.json
mkdir -p dist/logs
rm -f "$log"
if ! command -v podman >/dev/null; then
  echo "bundle validate name=multiarch: LEFT OUT, podman is not installed (apt-get install podman)"
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '[storage]\ndriver = "vfs"\ngraphroot = "%s/graph"\nrunroot = "%s/run"\n' "$work" "$work" >"$work/storage.conf"
export CONTAINERS_STORAGE_CONF=$work/storage.conf
if [ "${CLUSTER:-local}" != existing ]; then
  if ! curl -fs --max-time 5 --cacert "$state/pki/ca.crt" "https://${REGISTRY:-172.30.0.1:5000}/v2/" >/dev/null; then
    echo "bundle validate name=multiarch: LEFT OUT, the local cluster's registry does not answer (make up image)"
    exit 0
  fi
  printf 'unqualified-search-registries = []\n[[registry]]\nprefix = "%s"\nlocation = "%s"\n' \
    "$(cut -d/ -f1 <<<"${IMAGE_BASE:-ghcr.io/fettle-dev/fettle}")" "${REGISTRY:-172.30.0.1:5000}" >"$work/registries.conf"
  export CONTAINERS_REGISTRIES_CONF=$work/registries.conf SSL_CERT_FILE=$state/pki/ca.crt
fi
"$(tool operator-sdk operator-sdk)" bundle validate ./bundle --select-optional name=multiarch \
  --optional-values=container-tools=podman -o json-alpha1 >"$log" 2>"$log.err" || true
if ! grep -q '"passed": true' "$log" || grep -qE '"message": "(Warning|Error)' "$log"; then
  cat "$log" "$log.err"
  die "the bundle promises other architectures than its images have (config/manifests/bases, config/manager)"
fi
echo "bundle validate name=multiarch: no error, no warning"
