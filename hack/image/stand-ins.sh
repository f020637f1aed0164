#!/usr/bin/env bash
# Builds stand-in images and pushes them to the local cluster's registry, where no public registry is reachable. They have the
# names, paths, users and entrypoints of the public images, and are built from Go modules and Debian packages.
#
#   hack/image/stand-ins.sh NAME...        builds and pushes images; "cluster": those that the local cluster and the demo need;
#                                          "all": those of the tests too
#   hack/image/stand-ins.sh list           lists the images
#   hack/image/stand-ins.sh root NAME DIR  extracts the files of an image to a new directory
#
# Layers are cached in ${FETTLE_CACHE:-${XDG_CACHE_HOME:-~/.cache}/fettle}/images by a hash of all build inputs.
set -euo pipefail
# shellcheck source=hack/shell.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell.sh"
# shellcheck source=hack/image/crane.sh
source hack/image/crane.sh
# shellcheck source=hack/image/recipes.sh
source hack/image/recipes.sh
cache=${FETTLE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fettle}/images
apt='apt-get -q -o Acquire::Retries=5 -o DPkg::Lock::Timeout=300'

# unneeded are files that containers do not need.
unneeded='dev/* proc/* sys/* run/* tmp/* usr/share/doc/* usr/share/man/* usr/share/info/* usr/share/locale/* usr/share/i18n/*
  usr/share/lintian/* var/cache/apt/* var/cache/debconf/* var/lib/apt/lists/* var/log/apt/* etc/resolv.conf etc/hostname
  etc/machine-id usr/sbin/policy-rc.d var/log/bootstrap.log var/log/dpkg.log var/log/alternatives.log var/log/faillog
  var/log/lastlog'

# installation runs in its own mount namespace, so its mounts are removed when it exits. Arguments: the image's directory,
# the scripts before and after, the packages.
# shellcheck disable=SC2016 # the inner shell expands
installation='set -eu
root=$1 before=$2 after=$3
shift 3
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
printf "#!/bin/sh\nexit 101\n" >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
export DEBIAN_FRONTEND=noninteractive LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
chroot "$root" /bin/sh -euc "$before"
chroot "$root" apt-get -q -o Acquire::Retries=5 -o Acquire::Check-Valid-Until=false update
chroot "$root" apt-get -q -o Acquire::Retries=5 -y --no-install-recommends -o APT::Sandbox::User=root install "$@"
chroot "$root" /bin/sh -euc "$after"'

isolated() { unshare --mount --pid --fork --kill-child --mount-proc "$@"; }

# bootstrap SUITE DIRECTORY: creates the root filesystem of a Debian release from the mirror of the host's apt.
bootstrap() {
  local mirror script=''
  command -v debootstrap >/dev/null || $apt -y install debootstrap || { $apt update && $apt -y install debootstrap; }
  # shellcheck disable=SC2016 # fields of apt
  mirror=$(apt-get indextargets --format '$(LABEL) $(COMPONENT) $(REPO_URI)' 'Identifier: Packages' |
    awk '$1 == "Debian" && $2 == "main" { print $3; exit }')
  # A release that the host's debootstrap does not know is built with the script of sid.
  [ -e "/usr/share/debootstrap/scripts/$1" ] || script=sid
  isolated debootstrap --variant=minbase "$1" "$2" ${mirror:+"$mirror"} $script
}

# key NAME: prints the cache key of an image: the hash of all its build inputs.
key() (
  recipe "$1" || die "no stand-in for $1: see ${0##*/} list"
  {
    echo 1 # a higher number when the same recipe builds another image
    declare -p names config from suite packages before after files tools finish unneeded installation
    [ -z "$from" ] || key "$from"
    for family in $(sed 's#/[^ ]*##g' <<<"$tools"); do basename "$(hack/tools/bin "$family")"; done
    for directory in $files; do find "hack/image/rootfs/$directory" -type f | sort | xargs sha256sum; done
    [ "$1" != pause ] || cat hack/image/pause/main.go
    [ "$1" != stores ] || cat hack/tools/azurite/package-lock.json
  } | sha256sum | cut -c1-24
)

# layers NAME: prints the cached layers of an image, the lowest first, and builds missing ones.
layers() (
  file=$cache/$1-$(key "$1").tar.gz base=''
  recipe "$1"
  if [ -n "$from" ]; then base=$(layers "$from"); fi
  [ -e "$file" ] || build "$1" "$file" "$base" >&2
  if [ -n "$base" ] && [ -z "$packages" ]; then echo "$base"; fi
  echo "$file"
)

# build NAME FILE BASE: builds the last layer of an image.
build() {
  local directory=$work/$1 started=$SECONDS
  step "stand-in $1: building"
  for pause in 5 15 45 ''; do
    rm -rf "$directory"
    mkdir -p "$directory"
    content "$directory" "$3" >"$work/log" 2>&1 & # in the background, because bash ignores set -e in an && list
    wait $! && break
    [ -n "$pause" ] || { tail -40 "$work/log" && die "stand-in $1 failed"; }
    step "stand-in $1: retrying in $pause s: $(tail -1 "$work/log")"
    sleep "$pause"
  done
  layer "$work/layer.tar" "$directory"
  gzip -1 -n "$work/layer.tar"
  mv "$work/layer.tar.gz" "$2"
  rm -rf "$directory"
  step "stand-in $1: built in $((SECONDS - started)) s, $(du -h "$2" | cut -f1)"
}

# content DIRECTORY BASE: creates the files of the image's last layer.
content() {
  local target tool source mode
  if [ -n "$suite" ]; then bootstrap "$suite" "$1"; fi
  if [ -n "$packages" ]; then
    extract "$1" "$2"
    # shellcheck disable=SC2086 # a list of packages
    isolated /bin/sh -c "$installation" sh "$1" "$before" "$after" $packages
  fi
  for directory in $files; do
    find "hack/image/rootfs/$directory" -type f | while read -r source; do
      mode=644
      case $source in *.sh | */bin/*) mode=755 ;; esac
      install -D -m "$mode" "$source" "$1/${source#"hack/image/rootfs/$directory/"}"
    done
  done
  for tool in $tools; do
    target=${tool#*=} tool=${tool%%=*}
    install -D -m 755 "$(hack/tools/bin "${tool%/*}")/${tool#*/}" "$1$target"
  done
  cd "$1"
  # shellcheck disable=SC2086 # patterns
  rm -rf $unneeded
  eval "$finish"
}

# extract DIRECTORY LAYERS: extracts the files of layers.
extract() {
  while read -r file; do tar -xzpf "$file" --numeric-owner --same-owner -C "$1"; done <<<"$2"
}

# push NAME: pushes an image under all its names, unless the registry has it.
push() {
  local digest image files
  digest=$cache/$1-$(key "$1").digest
  recipe "$1"
  # The last name is pushed at last.
  if [ -s "$digest" ] && [ "$(crane digest "$(pushed_name "${names[-1]}")" 2>/dev/null)" = "$(cat "$digest")" ]; then return; fi
  files=$(layers "$1")
  # shellcheck disable=SC2086 # a list of files
  publish "${names[0]}" "$(go env GOARCH)" \
    "{$config,\"Labels\":{\"dev.fettle.stand-in\":\"true\",\"dev.fettle.stand-in.for\":\"${names[0]}\"}}" $files >"$work/digest"
  for image in "${names[@]:1}"; do crane copy "$(pushed_name "${names[0]}")" "$(pushed_name "$image")"; done
  mv "$work/digest" "$digest"
  step "stand-in $1: pushed as ${names[0]}"
}

if [ "${1:-}" = list ]; then
  for name in $all_images $on_demand_images; do
    recipe "$name"
    printf "%-20s %s\n" "$name" "${names[*]}"
  done
  exit
fi
[ $# -gt 0 ] || die "usage: ${0##*/} cluster|all|NAME..., list, or root NAME DIR"
[ "$(id -u)" = 0 ] || die "run this as root: it creates namespaces and files of other users"
umask 022
mkdir -p "$cache"
exec 9>"$cache/lock"
flock -n 9 || { step "waiting for another build of images" && flock 9; }
work=$cache/work # one build at a time, so the next one removes what a killed build left here
rm -rf "$work"
mkdir "$work"
trap 'rm -rf "$scratch" "$work"' EXIT

if [ "$1" = root ]; then
  mkdir -p "$3"
  extract "$3" "$(layers "$2")"
  exit
fi
# shellcheck disable=SC2086 # lists of images
case $1 in cluster) set -- $cluster_images ;; all) set -- $all_images ;; esac
for name; do push "$name"; done
