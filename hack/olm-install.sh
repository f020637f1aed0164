#!/usr/bin/env bash
# Installs Fettle with OLM from its catalog (CatalogSource, OperatorGroup, Subscription) and waits until the CSV has Succeeded.
# You can run it again at any time. If the images changed since the last run, it reinstalls the operator, because OLM does
# not update within one version. WebApps and their children stay.
set -euo pipefail
# shellcheck source=hack/shell.sh
source "$(dirname "${BASH_SOURCE[0]}")/shell.sh"

version=${VERSION:-0.0.1} catalog=${CATALOG_IMG:-ghcr.io/fettle-dev/fettle-catalog:v$version}
csv=fettle.v$version ns=fettle-system limit=900
digest_annotation=fettle.dev/built-from # on the CatalogSource: digest of the installed images

get() { kubectl -n $ns get "$@" --ignore-not-found 2>/dev/null || true; }

# install_state prints the progress of the installation in one line.
install_state() {
  get catalogsources.operators.coreos.com,subscriptions.operators.coreos.com,installplans.operators.coreos.com,clusterserviceversions.operators.coreos.com \
    -o 'jsonpath={range .items[*]}{.kind} {.metadata.name} {.status.connectionState.lastObservedState}{.status.state}{.status.phase}{"\n"}{end}' |
    awk -v csv="$csv" '
      {state = $3 == "" ? "new" : $3}
      $1 == "CatalogSource" && $2 == "fettle-catalog" {catalog = state}
      $1 == "Subscription" && $2 == "fettle" {subscription = state}
      $1 == "InstallPlan" {plan = state}
      $1 == "ClusterServiceVersion" && $2 == csv {version = state}
      END {
        printf "catalog %s, subscription %s, install plan %s, %s %s\n", catalog ? catalog : "missing",
          subscription ? subscription : "missing", plan ? plan : "none", csv, version ? version : "missing"
      }'
}

print_diagnostics() {
  echo "--- status of the OLM objects"
  get subscription.operators.coreos.com fettle -o 'jsonpath={range .status.conditions[*]}{.type}={.status} {.reason} {.message}{"\n"}{end}'
  get installplans -o 'jsonpath={range .items[*]}{.metadata.name} {.status.phase} {.status.message}{"\n"}{end}'
  get csv "$csv" -o 'jsonpath={.status.phase} {.status.reason} {.status.message}{"\n"}'
  get pods,jobs -o wide
  kubectl -n $ns get events --sort-by=.lastTimestamp 2>/dev/null | tail -15
} >&2

uninstall() {
  step "the images changed: removing the installed operator (WebApps stay)"
  kubectl -n $ns delete subscription.operators.coreos.com fettle --ignore-not-found >/dev/null
  kubectl -n $ns delete csv --all >/dev/null
  kubectl -n $ns delete catalogsource fettle-catalog --ignore-not-found >/dev/null # also deletes its unpacked bundles
  kubectl -n $ns wait --for=delete pod -l app.kubernetes.io/name=fettle --timeout=300s >/dev/null
}

# pull_image pulls the operator's image on every node, because a development build keeps its tag.
pull_image() {
  local node overrides
  step "pulling the operator's image"
  kubectl -n $ns wait --for=create serviceaccount/default --timeout=300s >/dev/null # pods are rejected without it
  for node in $(kubectl get nodes -o name); do
    node=${node#node/}
    overrides=$(printf '{"spec":{"nodeName":"%s","automountServiceAccountToken":false,"securityContext":{"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}},"containers":[{"name":"pull","image":"%s","imagePullPolicy":"Always","args":["--version"],"securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}]}}' \
      "$node" "${IMG:-ghcr.io/fettle-dev/fettle:v$version}")
    kubectl -n $ns delete pod "fettle-pull-$node" --ignore-not-found --grace-period=1 >/dev/null
    kubectl -n $ns run "fettle-pull-$node" --image=pull --restart=Never --overrides="$overrides" >/dev/null
  done
  for node in $(kubectl get nodes -o name); do
    kubectl -n $ns wait "pod/fettle-pull-${node#node/}" --for=jsonpath='{.status.phase}'=Succeeded --timeout=300s >/dev/null || {
      kubectl -n $ns describe pod "fettle-pull-${node#node/}" | tail -20 >&2
      die "node ${node#node/} cannot run the operator's image"
    }
    kubectl -n $ns delete pod "fettle-pull-${node#node/}" --grace-period=1 >/dev/null
  done
}

find_kubectl
kubectl get crd subscriptions.operators.coreos.com >/dev/null 2>&1 ||
  die "the cluster of ${KUBECONFIG:-~/.kube/config} has no OLM or is unreachable: run 'make up', or install OLM in that cluster"

# The local cluster's catalog is referenced by digest, so OLM sees a rebuilt catalog as a new one.
built_from=$catalog
if [ "${CLUSTER:-local}" != existing ]; then
  for image in operator bundle catalog; do
    [ -s "dist/images/$image.digest" ] || hack/image.sh $image >/dev/null
  done
  catalog=$catalog@$(sed 's/.*@//' dist/images/catalog.digest)
  built_from=$(sed 's/.*@//' dist/images/{operator,bundle,catalog}.digest | sha256sum | cut -c1-16)
fi

installed=$(get catalogsource fettle-catalog -o "jsonpath={.metadata.annotations['${digest_annotation//./\\.}']}")
if [ -n "$installed" ] && [ "$installed" != "$built_from" ]; then uninstall; fi
kubectl apply --server-side --field-manager=fettle-install -f config/namespace/namespace.yaml >/dev/null
if [ "${CLUSTER:-local}" != existing ] && [ "$installed" != "$built_from" ]; then pull_image; fi

kubectl kustomize config/subscription |
  sed "s|image: ghcr.io/fettle-dev/fettle-catalog:.*|image: $catalog|" |
  kubectl apply --server-side --field-manager=fettle-install -f - >/dev/null
kubectl -n $ns annotate --overwrite catalogsource fettle-catalog "$digest_annotation=$built_from" >/dev/null

step "waiting for OLM to install $csv"
end=$((SECONDS + limit)) last='' failing=''
while :; do
  now=$(install_state)
  if [ "$now" != "$last" ]; then step "  $now"; fi
  last=$now
  case $now in
  *"$csv Succeeded"*) break ;;
  *"$csv Failed"* | *"plan Failed"*) # OLM retries after a timeout
    failing=${failing:-$SECONDS}
    ((SECONDS < failing + 120)) || { print_diagnostics && die "OLM failed to install $csv"; }
    ;;
  *) failing='' ;;
  esac
  ((SECONDS < end)) || { print_diagnostics; die "$csv did not succeed within $limit s"; }
  sleep 1
done
kubectl -n $ns rollout status deployment/fettle-controller-manager --timeout=600s >/dev/null
step "OLM installed $csv: $(get deployment fettle-controller-manager -o 'jsonpath={.status.readyReplicas}') replicas of the operator are ready"
