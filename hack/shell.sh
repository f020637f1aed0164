# shellcheck shell=bash
# Sourced by the scripts beside it: progress, errors that say what to do, and which cluster is meant.
#
#   CLUSTER=existing  the cluster of KUBECONFIG; else the local one that `make up` brings up.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit
state=${FETTLE_CLUSTER:-/var/lib/fettle-cluster}
if [ "${CLUSTER:-local}" != existing ]; then
  export KUBECONFIG=$state/kubeconfig
fi

# step TEXT: prints a line of progress with the seconds since the outermost script began.
export FETTLE_STARTED=${FETTLE_STARTED:-$(date +%s)}
step() { printf '%4d s  %s\n' $(($(date +%s) - FETTLE_STARTED)) "$*"; }

# die TEXT: ends the script with what is wrong and what to do.
die() {
  echo "error: $*" >&2
  exit 1
}

# tool FAMILY NAME: the path of a pinned tool, which is built the first time.
tool() { echo "$(hack/tools/bin "$1")/$2"; }

kubectl() { command "${kubectl:=$(tool kubernetes kubectl)}" "$@"; }

# wait_for SECONDS WHAT COMMAND...: runs the command every second until it succeeds; prints what it waits for.
wait_for() {
  local limit=$1 what=$2 end=$((SECONDS + $1)) said=$SECONDS
  shift 2
  step "waiting for $what"
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || return 1
    if ((SECONDS >= said + 15)); then
      step "still waiting for $what (up to $limit s)"
      said=$SECONDS
    fi
    sleep 0.5
  done
}
