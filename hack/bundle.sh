#!/usr/bin/env bash
# Generates bundle/ and bundle.Dockerfile from config/manifests and the markers in api/.
set -euo pipefail
# shellcheck source=hack/shell.sh
source "$(dirname "${BASH_SOURCE[0]}")/shell.sh"

version=${VERSION:-0.0.1} image=${IMG:-ghcr.io/fettle-dev/fettle:v$version} channels=${CHANNELS:-stable,candidate}
sdk=$(tool operator-sdk operator-sdk) kustomize=$(tool kubebuilder kustomize)
base=config/manifests/bases/fettle.clusterserviceversion.yaml csv=bundle/manifests/fettle.clusterserviceversion.yaml

# The icon and the operator's image each have a single source.
sed -i "s|base64data: .*|base64data: $(base64 -w0 config/manifests/icon.svg)|; s|containerImage: .*|containerImage: $image|" $base
sed -i "s|newName: .*|newName: ${image%:*}|; s|newTag: .*|newTag: ${image##*:}|" config/manager/kustomization.yaml

old=$(mktemp)
trap 'rm -f "$old"' EXIT
cp $csv "$old" 2>/dev/null || true

"$sdk" generate kustomize manifests --interactive=false --quiet --package fettle --apis-dir api
rm -rf bundle bundle.Dockerfile # operator-sdk does not delete obsolete files
"$kustomize" build config/manifests | "$sdk" generate bundle --quiet --overwrite --package fettle --version "$version" \
  --channels "$channels" --default-channel "${channels%%,*}"
rm bundle/manifests/fettle-controller-manager-service_v1_service.yaml # OLM creates it

# operator-sdk writes the current time to createdAt; keep the old file if nothing else changed.
if diff -q -I '^    createdAt: ' "$old" $csv >/dev/null; then cp "$old" $csv; fi
echo "bundle: $(find bundle -type f | wc -l) files, version $version, channels $channels"
