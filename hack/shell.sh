# shellcheck shell=bash
# Functions for the scripts in hack/: progress, errors, tools and waiting. Sets KUBECONFIG by CLUSTER:
#
#   CLUSTER=existing  the cluster of KUBECONFIG; otherwise the local cluster that `make up` creates.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit
state=${FETTLE_CLUSTER:-/var/lib/fettle-cluster}
if [ "${CLUSTER:-local}" != existing ]; then
  export KUBECONFIG=$state/kubeconfig
fi

# step TEXT: prints a progress line with the seconds since the outermost script started.
export FETTLE_STARTED=${FETTLE_STARTED:-$(date +%s)}
step() { printf '%4d s  %s\n' $(($(date +%s) - FETTLE_STARTED)) "$*"; }

# die TEXT: prints an error and exits.
die() {
  echo "error: $*" >&2
  exit 1
}

# tool FAMILY NAME: prints the path of a pinned tool and builds the tool if needed.
tool() { echo "$(hack/tools/bin "$1")/$2"; }

# find_kubectl: sets the kubectl to use: the pinned one on the local cluster, the user's one on an existing cluster.
find_kubectl() {
  if [ "${CLUSTER:-local}" = existing ]; then
    kubectl=$(type -P kubectl) || die "kubectl is not installed: see https://kubernetes.io/docs/tasks/tools"
  else
    [ -e "$KUBECONFIG" ] || die "no local cluster found: run 'make up', or set CLUSTER=existing for the cluster of your kubectl"
    kubectl=$(tool kubernetes kubectl)
  fi
}

kubectl() {
  [ -n "${kubectl:-}" ] || find_kubectl
  "$kubectl" "$@"
}

# wait_for SECONDS WHAT COMMAND...: runs the command twice a second until it succeeds, and prints progress.
wait_for() {
  local limit=$1 what=$2 end=$((SECONDS + $1)) last=$SECONDS
  shift 2
  step "waiting for $what"
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || return 1
    if ((SECONDS >= last + 15)); then
      step "still waiting for $what (up to $limit s)"
      last=$SECONDS
    fi
    sleep 0.5
  done
}
