#!/usr/bin/env bash
# Runs a command that uses the network and retries it after 5, 15 and 45 seconds if it fails.
#
#   hack/retry.sh COMMAND ARGUMENT...
set -uo pipefail
for delay in 5 15 45 ''; do
  "$@" && exit
  code=$?
  [ -n "$delay" ] || exit $code
  echo "$1 failed with exit code $code; retrying in $delay s" >&2
  sleep "$delay"
done
