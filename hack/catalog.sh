#!/usr/bin/env bash
# Renders bundle/ into the catalog in its published form: the bundle's image reference and metadata.
set -euo pipefail
# shellcheck source=hack/shell.sh
source "$(dirname "${BASH_SOURCE[0]}")/shell.sh"

version=${VERSION:-0.0.1} image=${BUNDLE_IMG:-ghcr.io/fettle-dev/fettle-bundle:v$version}
opm=$(tool opm opm)
mkdir -p catalog/fettle/bundles
# This needs no bundle image: opm renders the directory. basic.yaml renders the same catalog from the image.
"$opm" render ./bundle -o yaml --alpha-image-ref-template "$image" \
  --migrate-level bundle-object-to-csv-metadata >"catalog/fettle/bundles/v$version.yaml"
sed -i "s|base64data: .*|base64data: $(base64 -w0 config/manifests/icon.svg)|" catalog/fettle/package.yaml
"$opm" validate catalog
echo "catalog: $(find catalog -name '*.yaml' | wc -l) files, valid"
