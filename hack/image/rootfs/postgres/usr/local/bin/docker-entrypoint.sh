#!/bin/bash
# Initialises an empty data folder as the environment says, then runs the command:
#   POSTGRES_PASSWORD, POSTGRES_USER, POSTGRES_DB (each also as NAME_FILE), POSTGRES_HOST_AUTH_METHOD, POSTGRES_INITDB_ARGS, PGDATA
#   /docker-entrypoint-initdb.d/*.sh, *.sql, *.sql.gz
set -euo pipefail

# from_file NAME DEFAULT: the variable, or the content of the file that NAME_FILE names, or the default.
from_file() {
  local file=$1_FILE
  if [ -n "${!file:-}" ]; then
    [ -z "${!1:-}" ] || { echo "error: both $1 and $file are set" >&2; exit 1; }
    printf -v "$1" %s "$(<"${!file}")"
  fi
  export "$1=${!1:-$2}"
  unset "$file"
}

sql() { psql -v ON_ERROR_STOP=1 --no-psqlrc --username "$POSTGRES_USER" --no-password "$@"; }

run_scripts() {
  local f
  for f in /docker-entrypoint-initdb.d/*; do
    case $f in
    *.sh) if [ -x "$f" ]; then "$f"; else . "$f"; fi ;;
    *.sql) sql --dbname "$POSTGRES_DB" -f "$f" ;;
    *.sql.gz) gunzip -c "$f" | sql --dbname "$POSTGRES_DB" ;;
    esac
  done
}

init() {
  local method=${POSTGRES_HOST_AUTH_METHOD:-scram-sha-256}
  if [ -z "$POSTGRES_PASSWORD" ] && [ "$method" != trust ]; then
    echo "error: the database is not initialised and POSTGRES_PASSWORD is not set (or set POSTGRES_HOST_AUTH_METHOD=trust)" >&2
    exit 1
  fi
  eval "initdb --username=\"\$POSTGRES_USER\" --pwfile=<(printf '%s\n' \"\$POSTGRES_PASSWORD\") ${POSTGRES_INITDB_ARGS:-}"
  printf '\nhost all all all %s\n' "$method" >>"$PGDATA/pg_hba.conf"
  # The temporary server can't be reached from outside, so that nobody meets a half-made database.
  PGUSER=$POSTGRES_USER pg_ctl -D "$PGDATA" -w -o "-c listen_addresses='' -p 5432" start
  if [ "$POSTGRES_DB" != postgres ]; then
    sql --dbname postgres --set db="$POSTGRES_DB" <<<'CREATE DATABASE :"db";'
  fi
  PGPASSWORD=$POSTGRES_PASSWORD run_scripts
  PGUSER=$POSTGRES_USER pg_ctl -D "$PGDATA" -m fast -w stop
}

if [ "${1:0:1}" = - ]; then
  set -- postgres "$@"
fi
if [ "$1" = postgres ]; then
  if [ "$(id -u)" = 0 ]; then
    mkdir -p "$PGDATA"
    chmod 700 "$PGDATA"
    find "$PGDATA" \! -user postgres -exec chown postgres '{}' +
    exec gosu postgres "$0" "$@"
  fi
  mkdir -p "$PGDATA"
  chmod 700 "$PGDATA" || true
  if [ ! -s "$PGDATA/PG_VERSION" ]; then
    from_file POSTGRES_PASSWORD ''
    from_file POSTGRES_USER postgres
    from_file POSTGRES_DB "$POSTGRES_USER"
    init
  fi
fi
exec "$@"
