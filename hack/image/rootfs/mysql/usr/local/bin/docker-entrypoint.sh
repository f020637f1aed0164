#!/bin/bash
# Initialises an empty data folder as the environment says, then runs the command:
#   MYSQL_ROOT_PASSWORD, MYSQL_ROOT_HOST, MYSQL_ALLOW_EMPTY_PASSWORD, MYSQL_RANDOM_ROOT_PASSWORD, MYSQL_DATABASE, MYSQL_USER, MYSQL_PASSWORD
#   (passwords and names also as NAME_FILE); /docker-entrypoint-initdb.d/*.sql, *.sql.gz
set -euo pipefail
data=/var/lib/mysql

# from_file NAME: the variable, or the content of the file that NAME_FILE names.
from_file() {
  local file=$1_FILE
  if [ -n "${!file:-}" ]; then
    printf -v "$1" %s "$(<"${!file}")"
  fi
  export "$1=${!1:-}"
  unset "$file"
}

# quote TEXT: as an SQL string.
quote() { printf "'%s'" "$(sed "s/[\\\\']/\\\\&/g" <<<"$1")"; }

setup() {
  local root host
  root=$(quote "$MYSQL_ROOT_PASSWORD")
  echo 'USE mysql;'
  # The accounts that come with a new data folder have no password.
  echo "DELETE FROM global_priv WHERE User = '' OR User = 'root' AND Host <> 'localhost';"
  echo 'FLUSH PRIVILEGES;'
  echo "ALTER USER root@localhost IDENTIFIED BY $root;"
  if [ "${MYSQL_ROOT_HOST:=%}" != localhost ]; then
    host=$(quote "$MYSQL_ROOT_HOST")
    echo "CREATE USER root@$host IDENTIFIED BY $root;"
    echo "GRANT ALL ON *.* TO root@$host WITH GRANT OPTION;"
  fi
  if [ -n "$MYSQL_DATABASE" ]; then
    echo "CREATE DATABASE IF NOT EXISTS \`$MYSQL_DATABASE\`;"
  fi
  if [ -n "$MYSQL_USER" ]; then
    echo "CREATE USER $(quote "$MYSQL_USER")@'%' IDENTIFIED BY $(quote "$MYSQL_PASSWORD");"
    [ -z "$MYSQL_DATABASE" ] || echo "GRANT ALL ON \`$MYSQL_DATABASE\`.* TO $(quote "$MYSQL_USER")@'%';"
  fi
  [ -z "$MYSQL_DATABASE" ] || echo "USE \`$MYSQL_DATABASE\`;"
  local f
  for f in /docker-entrypoint-initdb.d/*; do
    case $f in
    *.sql) cat "$f" ;;
    *.sql.gz) gunzip -c "$f" ;;
    esac
  done
}

init() {
  local name
  for name in MYSQL_ROOT_PASSWORD MYSQL_ROOT_HOST MYSQL_DATABASE MYSQL_USER MYSQL_PASSWORD; do
    from_file "$name"
  done
  if [ -n "${MYSQL_RANDOM_ROOT_PASSWORD:-}" ]; then
    MYSQL_ROOT_PASSWORD=$(head -c 24 /dev/urandom | base64)
    echo "GENERATED ROOT PASSWORD: $MYSQL_ROOT_PASSWORD"
  fi
  if [ -z "$MYSQL_ROOT_PASSWORD" ] && [ -z "${MYSQL_ALLOW_EMPTY_PASSWORD:-}" ]; then
    echo 'error: the database is not initialised and MYSQL_ROOT_PASSWORD is not set' \
      '(nor MYSQL_ALLOW_EMPTY_PASSWORD, nor MYSQL_RANDOM_ROOT_PASSWORD)' >&2
    exit 1
  fi
  # A half-made folder is recognised by the missing mark, and made again.
  find "$data" -mindepth 1 -maxdepth 1 \! -name lost+found -exec rm -rf '{}' +
  mariadb-install-db --datadir="$data" --auth-root-authentication-method=normal --skip-test-db >/dev/null
  setup | mariadbd --datadir="$data" --bootstrap
  touch "$data/.initialised"
}

if [ "${1:0:1}" = - ]; then
  set -- mysqld "$@"
fi
if [ "$1" = mysqld ] || [ "$1" = mariadbd ]; then
  if [ "$(id -u)" = 0 ]; then
    chown mysql "$data" /run/mysqld
    exec gosu mysql "$0" "$@"
  fi
  [ -e "$data/.initialised" ] || init
fi
exec "$@"
