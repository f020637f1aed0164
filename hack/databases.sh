#!/usr/bin/env bash
# Installs MariaDB on Debian for the tests if it is missing, without creating or starting a server, builds FerretDB and MongoDB's dump
# programs, and prints the directory of the built programs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! command -v mariadbd >/dev/null || ! command -v mariadb-dump >/dev/null; then
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "error: the tests need MariaDB: install Debian's packages mariadb-server-core and mariadb-client" >&2
    exit 1
  fi
  export DEBIAN_FRONTEND=noninteractive
  apt=(apt-get -qq -o Acquire::Retries=5 -o DPkg::Lock::Timeout=300)
  install() { "${apt[@]}" install -y --no-install-recommends mariadb-server-core mariadb-client >/dev/null; }
  install 2>/dev/null || { "${apt[@]}" update && install; }
fi
hack/tools/bin databases
