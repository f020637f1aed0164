#!/usr/bin/env bash
# Runs a command that fetches from the network, and again if it fails: after 5, 15 and 45 seconds.
#
#   hack/retry.sh COMMAND ARGUMENT...
set -uo pipefail
for pause in 5 15 45 ''; do
  "$@" && exit
  code=$?
  [ -n "$pause" ] || exit $code
  echo "$1 failed with $code; again in $pause s" >&2
  sleep "$pause"
done
