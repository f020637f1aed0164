#!/usr/bin/env bash
# Installs a headless Chromium on Debian for the end-to-end tests if there is none.
set -euo pipefail

if ! command -v chromium-headless-shell >/dev/null && ! command -v chromium >/dev/null; then
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "error: the end-to-end tests need a browser: install Debian's package chromium-headless-shell" >&2
    exit 1
  fi
  export DEBIAN_FRONTEND=noninteractive
  apt=(apt-get -qq -o Acquire::Retries=5 -o DPkg::Lock::Timeout=300)
  install() { "${apt[@]}" install -y --no-install-recommends chromium-headless-shell >/dev/null; }
  install 2>/dev/null || { "${apt[@]}" update && install; }
fi
