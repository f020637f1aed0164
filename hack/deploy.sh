#!/usr/bin/env bash
# Installs the CRDs or the operator without OLM, in the cluster of KUBECONFIG.
#
#   hack/deploy.sh install|uninstall|deploy|undeploy
#   hack/deploy.sh print      prints what deploy applies; needs no cluster
set -euo pipefail
[ "${KUBECONFIG:-}" = "${FETTLE_CLUSTER:-/var/lib/fettle-cluster}/kubeconfig" ] || CLUSTER=existing
# shellcheck source=hack/shell.sh
source "$(dirname "${BASH_SOURCE[0]}")/shell.sh"

# The pinned kustomize and the kustomize in kubectl print the same. A release needs no kubectl.
if [ "${1:-}" = print ]; then
  build=("$(tool kubebuilder kustomize)" build)
else
  find_kubectl
  build=(kubectl kustomize)
fi

# operator: prints all objects of config/default, with the image IMG.
operator() {
  local image=${IMG:-ghcr.io/fettle-dev/fettle:v${VERSION:-0.0.1}}
  "${build[@]}" config/default | sed "s#\\(image\\|value\\): ghcr.io/fettle-dev/fettle:.*#\\1: $image#"
}

case ${1:-} in
install) kubectl kustomize config/crd | kubectl apply --server-side -f - ;;
uninstall) kubectl kustomize config/crd | kubectl delete --ignore-not-found -f - ;;
deploy)
  operator | kubectl apply --server-side -f -
  kubectl -n fettle-system rollout status deployment/fettle-controller-manager --timeout=180s
  ;;
undeploy) operator | kubectl delete --ignore-not-found -f - ;;
print) operator ;;
*) die "usage: ${0##*/} install|uninstall|deploy|undeploy|print" ;;
esac
