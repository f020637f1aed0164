#!/usr/bin/env bash
# Installs PostgreSQL on Debian for the tests if it is missing, without creating or starting a database cluster.
set -euo pipefail

for dir in ${FETTLE_POSTGRES_BIN:-} /usr/lib/postgresql/*/bin /usr/local/bin; do
  [ ! -x "$dir/postgres" ] || [ ! -x "$dir/initdb" ] || exit 0
done
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "error: the tests need PostgreSQL 13 or later: install Debian's package postgresql, or set FETTLE_POSTGRES_BIN to its bin directory" >&2
  exit 1
fi

# By default the package creates and starts a database cluster. This file disables that; an existing file is kept.
mkdir -p /etc/postgresql-common
[ -e /etc/postgresql-common/createcluster.conf ] || echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf

export DEBIAN_FRONTEND=noninteractive
apt=(apt-get -qq -o Acquire::Retries=5 -o DPkg::Lock::Timeout=300)
install() { "${apt[@]}" install -y --no-install-recommends -o Dpkg::Options::=--force-confold postgresql >/dev/null; }
update() { "${apt[@]}" update && install; }
install 2>/dev/null || update || { sleep 15; update; }
