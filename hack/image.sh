#!/usr/bin/env bash
# Builds an image with crane, without a container engine, and pushes it to the registry. Prints NAME@DIGEST.
#
#   hack/image.sh operator|bundle|catalog|voteapp|shop
#
# voteapp is the voting application of the end-to-end tests, shop the shop of the end-to-end tests and the demo.
set -euo pipefail
# shellcheck source=hack/shell.sh
source "$(dirname "${BASH_SOURCE[0]}")/shell.sh"
# shellcheck source=hack/image/crane.sh
source hack/image/crane.sh
[ -n "$registry" ] || die "set REGISTRY to the registry to push to, or build the image with 'make docker-build'"

base=${IMAGE_BASE:-ghcr.io/fettle-dev/fettle} version=${VERSION:-0.0.1}
path='"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"'

# program NAME BINARY…: writes the layer of static binaries, with the users, directories and CA certificates of the usual base
# images for static binaries.
program() {
  local directory=$scratch/$1 certificates=/etc/ssl/certs/ca-certificates.crt
  [ -r $certificates ] || die "$certificates does not exist: install ca-certificates"
  mkdir -p "$directory/etc"
  printf '%s\n' root:x:0:0:root:/root:/sbin/nologin nobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin \
    nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin >"$directory/etc/passwd"
  printf '%s\n' root:x:0: nobody:x:65534: nonroot:x:65532: >"$directory/etc/group"
  echo 'hosts: files dns' >"$directory/etc/nsswitch.conf"
  install -D -m 644 $certificates "$directory$certificates"
  install -m 755 -t "$directory" "${@:2}"
  chmod -R u=rwX,go=rX "$directory"
  mkdir -m 1777 "$directory/tmp"
  mkdir -m 700 "$directory/root"
  layer "$directory.tar" "$directory" --owner=0 --group=0
  mkdir -p "$scratch/home/home/nonroot"
  chmod 700 "$scratch/home/home/nonroot"
  tar -C "$scratch/home" -r --no-recursion --numeric-owner --owner=65532 --group=65532 --mtime=@0 -f "$directory.tar" home/nonroot
}

# labels: prints the labels of bundle.Dockerfile as JSON.
labels() { awk '$1 == "LABEL" { sub(/=/, "\":\"", $2); printf "%s\"%s\"", comma, $2; comma = "," }' bundle.Dockerfile; }

case ${1:-} in
operator)
  image=${IMG:-$base:v$version} parts=()
  json='"org.opencontainers.image.source":"https://github.com/fettle-dev/fettle","org.opencontainers.image.licenses":"Apache-2.0"'
  json='{"User":"65532:65532","WorkingDir":"/","Entrypoint":["/fettle"],"Env":['$path'],"Labels":{'$json',"org.opencontainers.image.version":"v'$version'"}}'
  for arch in ${ARCHES:-$(go env GOARCH)}; do
    hack/build.sh "bin/$arch/fettle" "$arch"
    program "$arch" "bin/$arch/fettle" "bin/$arch/fettle-wal"
    digest=$(publish "$image-$arch" "$arch" "$json" "$scratch/$arch.tar")
    parts+=(--manifest "$(pushed_name "${image%:*}")@$digest")
  done
  digest=$(crane index append --docker-empty-base "${parts[@]}" --tag "$(pushed_name "$image")")
  ;;
bundle)
  image=${BUNDLE_IMG:-$base-bundle:v$version}
  [ -d bundle/manifests ] || die "bundle/ does not exist: run 'make bundle' first"
  mkdir "$scratch/bundle"
  cp -r bundle/* "$scratch/bundle"
  layer "$scratch/bundle.tar" "$scratch/bundle" --owner=0 --group=0 --mode=u=rwX,go=rX
  digest=$(publish "$image" amd64 "{\"Labels\":{$(labels)}}" "$scratch/bundle.tar")
  ;;
catalog)
  image=${CATALOG_IMG:-$base-catalog:v$version}
  opm=$(awk '$1 == "FROM" { print $2 }' catalog.Dockerfile | tail -1)
  [ "$registry" != "$local_registry" ] || opm=$(pushed_name "$opm")
  mkdir -p "$scratch/catalog/tmp"
  cp -r catalog "$scratch/catalog/configs"
  chmod -R u=rwX,go=rX "$scratch/catalog" # the digest of the cache includes the modes
  (
    cd "$scratch/catalog"
    "$(cd "$root" && tool opm opm)" serve "$PWD/configs" --cache-dir="$PWD/tmp/cache" --cache-only --pprof-addr= \
      --termination-log="$scratch/termination-log" >"$scratch/opm.log" 2>&1 || { cat "$scratch/opm.log" >&2; exit 1; }
  )
  chmod 1777 "$scratch/catalog/tmp"
  layer "$scratch/catalog.tar" "$scratch/catalog" --owner=0 --group=0
  digest=$(crane mutate "$opm" --platform linux/amd64 --append "$scratch/catalog.tar" --entrypoint /bin/opm \
    --cmd serve,/configs,--cache-dir=/tmp/cache --label operators.operatorframework.io.index.configs.v1=/configs \
    --tag "$(pushed_name "$image")")
  ;;
voteapp | shop)
  image=${VOTEAPP_IMG:-ghcr.io/fettle-dev/voteapp:test}
  [ "$1" = voteapp ] || image=${SHOP_IMG:-ghcr.io/fettle-dev/shop:test}
  CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w" -o "bin/$1" "./test/e2e/$1"
  program "$1" "bin/$1"
  digest=$(publish "$image" "$(go env GOARCH)" \
    '{"User":"65532:65532","WorkingDir":"/","Entrypoint":["/'"$1"'"],"Env":['$path']}' "$scratch/$1.tar")
  ;;
*) die "usage: ${0##*/} operator|bundle|catalog|voteapp|shop" ;;
esac
mkdir -p dist/images
echo "$image@${digest##*@}" | tee "dist/images/$1.digest"
