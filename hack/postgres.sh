#!/usr/bin/env bash
# Installs PostgreSQL on Debian for the tests, where it is missing, without making or starting a cluster of its own.
set -euo pipefail

for dir in ${FETTLE_POSTGRES_BIN:-} /usr/lib/postgresql/*/bin /usr/local/bin; do
  [ ! -x "$dir/postgres" ] || [ ! -x "$dir/initdb" ] || exit 0
done
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "error: the tests need PostgreSQL 13 or later: install Debian's postgresql, or name its folder of programs in FETTLE_POSTGRES_BIN" >&2
  exit 1
fi

# The package would make a cluster and start it; postgresql-common looks here before, and the file stays as it is.
mkdir -p /etc/postgresql-common
[ -e /etc/postgresql-common/createcluster.conf ] || echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf

export DEBIAN_FRONTEND=noninteractive
install() { apt-get install -y -qq --no-install-recommends -o Dpkg::Options::=--force-confold postgresql >/dev/null; }
install 2>/dev/null || { apt-get update -qq && install; }
