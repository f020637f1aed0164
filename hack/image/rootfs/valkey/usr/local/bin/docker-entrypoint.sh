#!/bin/sh
# Runs the server as the user valkey, and like the official image without protected mode: a container's network is its border.
set -eu
if [ "${1#-}" != "$1" ] || [ "${1%.conf}" != "$1" ]; then
  set -- valkey-server "$@"
fi
if [ "$1" = valkey-server ]; then
  case " $* " in
  *protected-mode*) ;;
  *) set -- "$@" --protected-mode no ;;
  esac
  if [ "$(id -u)" = 0 ]; then
    find . \! -user valkey -exec chown valkey '{}' +
    exec gosu valkey "$@"
  fi
fi
exec "$@"
