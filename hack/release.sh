#!/usr/bin/env bash
# Prepares a release without a registry, or pushes and signs the images of a prepared release.
#
#   hack/release.sh prepare   sets the version, generates the bundle, the catalog and the chart, builds images, SBOMs, checksums and
#                             release notes in dist/, and prints what to push. Pushes nothing.
#   hack/release.sh push      pushes the images in dist/images and signs them with cosign
#
# The variable VERSION is X.Y.Z or X.Y.Z-PRERELEASE.
set -euo pipefail
# shellcheck source=hack/shell.sh
source "$(dirname "${BASH_SOURCE[0]}")/shell.sh"

usage="usage: make release VERSION=0.1.0"
version=${VERSION:-} tag=v${VERSION:-} out=dist/release notes=dist/release-notes.md
base=${IMAGE_BASE:-ghcr.io/fettle-dev/fettle} channels=${CHANNELS:-stable,candidate}
current=$(awk '/^VERSION \?=/ {print $3}' Makefile)

# check: rejects a wrong version, a work tree with changes, and a tag of another commit.
check() {
  local number='(0|[1-9][0-9]*)' tagged
  [[ $version =~ ^$number\.$number\.$number(-[0-9a-z.]+)?$ ]] || die "'$version' is not a version such as 0.1.0 or 0.1.0-rc.1 ($usage)"
  [ -z "$(git status --porcelain)" ] || die "the work tree has changes: commit or remove them (git status)"
  tagged=$(git rev-parse -q --verify "refs/tags/$tag^{commit}") || return 0
  [ "$tagged" = "$(git rev-parse HEAD)" ] || die "the tag $tag is at another commit: choose another version"
}

# find_previous: sets the tag of the last release, without pre-releases, or ''.
find_previous() {
  previous=$(git tag -l 'v*' --sort=-v:refname | grep -E '^v[0-9.]+$' | head -1) || true
  [ -z "$previous" ] || [ "$(printf '%s\n' "$previous" "v${version%%-*}" | sort -V | tail -1)" != "$previous" ] ||
    die "$version is not newer than the release $previous"
  case $previous,$version in ,*-*) die "the first release must not be a pre-release: the channel stable would be empty" ;; esac
}

# add_entry FILE: adds the version to the channels in a file. It replaces the last release, and pre-releases of the same version.
add_entry() {
  awk -v channels=",$channels," -v version="$version" -v previous="$previous" '
    {print}
    $1 == "name:" {channel = $2}
    $1 == "entries:" && index(channels, "," channel ",") {
      indent = substr($0, 1, index($0, "e") - 1)
      print indent "- name: fettle.v" version
      if (previous != "") print indent "  replaces: fettle." previous
      split(version, number, "-")
      print indent "  skipRange: \x27>=" number[1] "-0 <" version "\x27"
    }' "$1" >"$1.new"
  mv "$1.new" "$1"
}

# set_catalog: adds the version to the catalog of the last release. The version of the development leaves the catalog.
set_catalog() {
  local files=(catalog/fettle/channels.yaml catalog-templates/basic.yaml)
  if [ -n "$previous" ]; then
    git restore --source="$previous" -- catalog/fettle/bundles "${files[@]}"
  else
    rm -f "catalog/fettle/bundles/v$current.yaml"
    sed -i "/- name: fettle.v$current\$/d; /- schema: olm.bundle/d; /-bundle:v$current\$/d" "${files[@]}"
  fi
  add_entry "${files[0]}"
  add_entry "${files[1]}"
  printf -- '- schema: olm.bundle\n  image: %s\n' "${BUNDLE_IMG:-$base-bundle:$tag}" >>"${files[1]}"
}

# set_version: writes the version into the files that contain it. The section Unreleased becomes the section of the version.
set_version() {
  [ "$version" != "$current" ] || return 0
  find_previous
  set_catalog
  sed -i "s/^VERSION ?= .*/VERSION ?= $version/" Makefile
  sed -i "s/^version: .*/version: $version/; s/^appVersion: .*/appVersion: \"$version\"/" charts/fettle/Chart.yaml
  sed -i "s|^  image: .*|  image: ${CATALOG_IMG:-$base-catalog:$tag}|" config/subscription/catalog_source.yaml
  case $version in *-*) ;; *) sed -i "s/^## \[Unreleased\]\$/&\n\n## [$version] - $(date -u +%F)/" CHANGELOG.md ;; esac
}

# write_notes: copies the section of the version from CHANGELOG.md, or the section Unreleased, with absolute links.
write_notes() {
  local section=$version
  grep -q "^## \[$version\]" CHANGELOG.md || section=Unreleased
  awk -v heading="## [$section]" '/^## / {inside = index($0, heading) == 1; next} inside && !/^\[[^]]*\]: /' CHANGELOG.md |
    sed "/./,\$!d; s|](docs/|](https://github.com/fettle-dev/fettle/blob/$tag/docs/|g" >$notes
  grep -q '^- ' $notes || die "CHANGELOG.md has no entries in the section [$section]: describe the changes there"
}

# start_registry: starts a registry on a free port of this machine, until the script exits, and sets its address.
start_registry() {
  local log=dist/logs/release-registry.log
  mkdir -p dist/logs
  "$crane" registry serve --address 127.0.0.1:0 --disk "$scratch" >$log 2>&1 &
  server=$!
  trap 'kill $server || true; rm -rf "$scratch"' EXIT
  wait_for 30 "the temporary registry" grep -q 'serving on port' $log || die "the temporary registry did not start: see $log"
  registry=127.0.0.1:$(awk '/serving on port/ {print $NF}' $log)
}

# save_image KIND: builds an image in the temporary registry and saves it as an OCI layout with the same digest.
save_image() {
  local image
  image=$(REGISTRY=$registry ARCHES='amd64 arm64' hack/image.sh "$1")
  "$crane" pull --format=oci "$registry/${image#*/}" "dist/images/$1"
  rm "dist/images/$1.digest" # `make olm-install` would look for this image in the local cluster's registry
  echo "$1 $image" >>$out/images.txt
  step "image $image"
}

# save_images: builds the images of both architectures. The base of the catalog's image must be pulled.
save_images() {
  local kind opm
  opm=$(awk '$1 == "FROM" {print $2}' catalog.Dockerfile | tail -1)
  start_registry
  for kind in operator bundle catalog; do
    rm -rf "dist/images/$kind"
    if [ $kind = catalog ] && ! "$crane" manifest "$opm" >/dev/null 2>&1; then
      missing="The image of the catalog is not built, because its base $opm could not be pulled. The workflow builds the image."
      continue
    fi
    save_image $kind
  done
}

# archive FILE NAME DIRECTORY: archives a directory under another name. The same contents give the same file.
archive() { tar -cf - --owner=0 --group=0 --numeric-owner --mtime=@0 --sort=name --transform="s|^$3|$2|" "$3" | gzip -n >"$out/$1"; }

# save_files: writes the manifest, the Helm chart, the bundle for pull requests, an SBOM of each binary, and checksums.
save_files() {
  local gomod arch name
  gomod=$(tool supply-chain cyclonedx-gomod)
  hack/deploy.sh print >$out/install.yaml
  archive "fettle-$version.tgz" fettle charts/fettle
  archive "fettle-bundle-$version.tar.gz" "operators/fettle/$version" bundle
  for arch in amd64 arm64; do
    for name in fettle fettle-wal; do
      "$gomod" bin -json -std -notimestamp -noserial -version "$tag" -output "$out/$name-linux-$arch.cdx.json" "bin/$arch/$name" \
        2>dist/logs/release-sbom.log || die "no SBOM of bin/$arch/$name: see dist/logs/release-sbom.log"
    done
  done
  (cd $out && sha256sum -- * >checksums.txt)
}

# say_what_to_push: prints the steps of a person after the preparation.
say_what_to_push() {
  local branch
  branch=release-$(cut -d. -f1,2 <<<"$version")
  cat <<END

Fettle $version is prepared in dist/. Nothing was pushed.
$missing
1. Commit the version, unless it is committed:
     git switch $branch || git switch -c $branch
     git add -A && git commit -m "release: $tag"
2. Tag the commit. The workflow "release" builds and signs the images and drafts the release:
     git tag -s $tag -m "Fettle $version"
     git push origin $branch $tag
3. Images that the workflow pushes. "make release-push VERSION=$version" does the same without the workflow:
$(sed 's/^[^ ]* /     /' $out/images.txt)
4. Open a pull request with the contents of $out/fettle-bundle-$version.tar.gz in
     https://github.com/k8s-operatorhub/community-operators
     https://github.com/redhat-openshift-ecosystem/community-operators-prod
5. Publish the draft of the release. Its notes are $notes.
END
}

prepare() {
  check
  rm -rf $out
  mkdir -p $out dist/logs
  write_notes
  set_version
  step "bundle, catalog and chart"
  make bundle catalog chart >dist/logs/release-bundle.log || die "no bundle or no chart: see dist/logs/release-bundle.log"
  save_images
  step "manifest, chart archive, SBOMs and checksums"
  save_files
  say_what_to_push
}

# push: pushes the images with their digests, and signs them. SBOMs become attestations of the operator's image.
push() {
  local kind image sbom
  command -v cosign >/dev/null || die "cosign is not installed: see https://docs.sigstore.dev"
  [ "$(wc -l <$out/images.txt)" = 3 ] || die "dist/ does not have all images of a release ($usage)"
  [ -z "${REGISTRY_PASSWORD:-}" ] || "$crane" auth login "${base%%/*}" -u "$REGISTRY_USER" --password-stdin <<<"$REGISTRY_PASSWORD"
  while read -r kind image; do
    "$crane" push "dist/images/$kind" "${image%@*}"
    cosign sign --yes "$image"
  done <$out/images.txt
  image=$(awk '$1 == "operator" {print $2}' $out/images.txt)
  for sbom in "$out"/*.cdx.json; do cosign attest --yes --type cyclonedx --predicate "$sbom" "$image"; done
  cosign sign-blob --yes --bundle $out/checksums.txt.sigstore.json $out/checksums.txt
}

missing='' crane=$(tool crane crane)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
case ${1:-} in
prepare | push) "$1" ;;
*) die "$usage" ;;
esac
