#!/usr/bin/env bash
# Runs the tests of the packages that run a PostgreSQL server inside the images of several PostgreSQL versions, without a cluster.
# The tests run chrooted into the image's files, in separate namespaces with only a loopback network. Needs root.
#
#   hack/postgres-versions.sh [VERSION...]     for example 13 17 17-alpine 18; TEST_RUN is a pattern as in `go test -run`
set -euo pipefail
# shellcheck source=hack/shell.sh
source "$(dirname "${BASH_SOURCE[0]}")/shell.sh"

[ "$(id -u)" = 0 ] || die "run this as root: it creates namespaces and files of other users"
[ $# -gt 0 ] || set -- 13 17 17-alpine
packages=(internal/postgres/config internal/postgres/server internal/postgres/sqlclient internal/postgres/exporter)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p dist/logs "$work/tests"
for package in "${packages[@]}"; do
  mkdir -p "$work/tests/$package"
  CGO_ENABLED=0 go test -c -o "$work/tests/$package/test" "./$package"
  find "$package" -maxdepth 1 \( -name testdata -o -name '*.tsv' \) -exec cp -r -t "$work/tests/$package" {} +
done

failed=()
for version in "$@"; do
  step "extracting postgres:$version"
  hack/image/stand-ins.sh root "postgres-$version" "$work/$version"
  log=dist/logs/postgres-$version.log
  step "tests in postgres:$version (log: $log)"
  # shellcheck disable=SC2016 # the inner shell expands
  # The kernel removes all mounts and processes with their namespaces when the script exits.
  if unshare --mount --pid --net --fork --kill-child bash -euo pipefail -c '
    root=$1 tests=$2 run=$3
    shift 3
    ip link set lo up
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs tmpfs "$root/run"
    mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
    mount --bind "$tests" "$root/mnt"
    export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    result=0
    for package; do
      chroot "$root" /bin/sh -c "cd /mnt/$package && exec ./test -test.v -test.timeout=10m -test.run=\"\$0\"" "$run" || result=1
    done
    exit $result' bash "$work/$version" "$work/tests" "${TEST_RUN:-.}" "${packages[@]}" >"$log" 2>&1; then
    step "postgres:$version: passed"
  else
    grep -E '^ *--- FAIL|_test.go:|^panic' "$log" | head -40 || tail -40 "$log"
    failed+=("$version")
  fi
  rm -rf "${work:?}/$version"
done
[ ${#failed[@]} -eq 0 ] || die "the tests failed in postgres:${failed[*]}"
