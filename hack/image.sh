#!/usr/bin/env bash
# Builds an image without a container engine and pushes it to the registry. Without a registry it writes the image to
# dist/images. Prints NAME@DIGEST.
#
#   hack/image.sh operator|bundle|catalog|voteapp
#
# voteapp is the voting application of the end-to-end tests.
set -euo pipefail
# shellcheck source=hack/shell.sh
source "$(dirname "${BASH_SOURCE[0]}")/shell.sh"

base=${IMAGE_BASE:-ghcr.io/fettle-dev/fettle} version=${VERSION:-0.0.1}
mkdir -p dist/images

# The local cluster's registry mirrors all public registries, so images keep their published names.
if [ "${CLUSTER:-local}" != existing ]; then
  destination=(--push "${REGISTRY:-172.30.0.1:5000}" --ca "$state/pki/ca.crt")
  [ -r "$state/pki/ca.crt" ] || die "no local cluster found: run 'make up' first, or set CLUSTER=existing"
elif [ -n "${REGISTRY:-}" ]; then
  destination=(--push "$REGISTRY")
else
  destination=(--output "oci=$root/dist/images/$1")
  echo "REGISTRY is not set: writing the image to dist/images/$1 without a push" >&2
fi

# image ARGUMENTS...: runs hack/image with the destination.
image() {
  go -C hack run ./image "$@" "${destination[@]}"
}

case ${1:-} in
operator)
  arguments=()
  for arch in ${ARCHES:-$(go env GOARCH)}; do
    hack/build.sh "bin/$arch/fettle" "$arch"
    arguments+=(--binary "$root/bin/$arch/fettle")
  done
  image build "${arguments[@]}" --index --name "${IMG:-$base:v$version}" \
    --label org.opencontainers.image.source=https://github.com/fettle-dev/fettle \
    --label "org.opencontainers.image.version=v$version" --label org.opencontainers.image.licenses=Apache-2.0
  ;;
bundle)
  [ -d bundle/manifests ] || die "bundle/ does not exist: run 'make bundle' first"
  image dockerfile -f "$root/bundle.Dockerfile" --context "$root" --name "${BUNDLE_IMG:-$base-bundle:v$version}"
  ;;
catalog)
  image dockerfile -f "$root/catalog.Dockerfile" --context "$root" --opm "$(tool opm opm)" \
    --name "${CATALOG_IMG:-$base-catalog:v$version}"
  ;;
voteapp)
  CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w" -o bin/voteapp ./test/e2e/voteapp
  image build --binary "$root/bin/voteapp" --ca-certificates= --name "${VOTEAPP_IMG:-ghcr.io/fettle-dev/voteapp:test}"
  ;;
*) die "usage: ${0##*/} operator|bundle|catalog|voteapp" ;;
esac | tee "dist/images/$1.digest"
