#!/bin/sh
# Runs the server as the user redis, and like the official image without protected mode: a container's network is its border.
set -eu
if [ "${1#-}" != "$1" ] || [ "${1%.conf}" != "$1" ]; then
  set -- redis-server "$@"
fi
if [ "$1" = redis-server ]; then
  case " $* " in
  *protected-mode*) ;;
  *) set -- "$@" --protected-mode no ;;
  esac
  if [ "$(id -u)" = 0 ]; then
    find . \! -user redis -exec chown redis '{}' +
    exec gosu redis "$@"
  fi
fi
exec "$@"
