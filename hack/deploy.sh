#!/usr/bin/env bash
# Installs the CRDs or the operator without OLM, in the cluster of KUBECONFIG.
#
#   hack/deploy.sh install|uninstall|deploy|undeploy
set -euo pipefail
[ "${KUBECONFIG:-}" = "${FETTLE_CLUSTER:-/var/lib/fettle-cluster}/kubeconfig" ] || CLUSTER=existing
# shellcheck source=hack/shell.sh
source "$(dirname "${BASH_SOURCE[0]}")/shell.sh"
find_kubectl

operator() { kubectl kustomize config/default | sed "s#\\(image\\|value\\): ghcr.io/fettle-dev/fettle:.*#\\1: ${IMG:-ghcr.io/fettle-dev/fettle:v${VERSION:-0.0.1}}#"; }

case ${1:-} in
install) kubectl kustomize config/crd | kubectl apply --server-side -f - ;;
uninstall) kubectl kustomize config/crd | kubectl delete --ignore-not-found -f - ;;
deploy)
  operator | kubectl apply --server-side -f -
  kubectl -n fettle-system rollout status deployment/fettle-controller-manager --timeout=180s
  ;;
undeploy) operator | kubectl delete --ignore-not-found -f - ;;
*) die "usage: ${0##*/} install|uninstall|deploy|undeploy" ;;
esac
