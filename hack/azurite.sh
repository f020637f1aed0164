#!/usr/bin/env bash
# Installs the pinned azurite, the Azure Blob Storage of the tests, from npm if it is missing, and prints the directory of azurite-blob.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/tools/azurite"
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "error: the tests of object stores need node and npm: install Debian's packages nodejs and npm" >&2
    exit 1
  fi
  export DEBIAN_FRONTEND=noninteractive
  apt=(apt-get -qq -o Acquire::Retries=5 -o DPkg::Lock::Timeout=300)
  { "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends nodejs npm; } >&2
fi
cache=${FETTLE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fettle}/tools
out=$cache/azurite-$({ cat package.json package-lock.json; node --version; } | sha256sum | cut -c1-16)
mkdir -p "$cache"
exec 9>"$cache/azurite.lock"
flock 9
if [ ! -d "$out" ]; then
  rm -rf "$out.part"
  mkdir "$out.part"
  cp package.json package-lock.json "$out.part"
  # Scripts of packages are not run: azurite needs none.
  ../../retry.sh npm ci --prefix "$out.part" --ignore-scripts --no-audit --no-fund --omit=dev --loglevel=error >&2
  mv "$out.part" "$out"
fi
echo "$out/node_modules/.bin"
