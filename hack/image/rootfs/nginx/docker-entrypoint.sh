#!/bin/sh
# Runs what is mounted at /docker-entrypoint.d before nginx starts, then the command.
set -eu
if [ "$1" = nginx ]; then
  for script in /docker-entrypoint.d/*; do
    case $script in
    *.envsh) . "$script" ;;
    *.sh) [ ! -x "$script" ] || "$script" ;;
    esac
  done
fi
exec "$@"
