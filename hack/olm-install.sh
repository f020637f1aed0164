#!/usr/bin/env bash
# Installs Fettle by OLM from its catalog: CatalogSource, OperatorGroup and Subscription, until the CSV has Succeeded.
# May be repeated; when the images have changed meanwhile (a version under development keeps its number), the operator
# is removed and installed anew. WebApps and their children stay.
set -euo pipefail
# shellcheck source=hack/shell.sh
source "$(dirname "${BASH_SOURCE[0]}")/shell.sh"

version=${VERSION:-0.0.1} catalog=${CATALOG_IMG:-ghcr.io/fettle-dev/fettle-catalog:v$version}
csv=fettle.v$version ns=fettle-system limit=900
mark=fettle.dev/built-from # on the CatalogSource: the digests of the images that were installed

get() { kubectl -n $ns get "$@" --ignore-not-found 2>/dev/null || true; }

# state prints one line on how far the installation is, from one request for each kind.
state() {
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
          subscription ? subscription : "missing", plan ? plan : "none", csv, version ? version : "not there yet"
      }'
}

explain() {
  echo "--- what OLM says"
  get subscription.operators.coreos.com fettle -o 'jsonpath={range .status.conditions[*]}{.type}={.status} {.reason} {.message}{"\n"}{end}'
  get installplans -o 'jsonpath={range .items[*]}{.metadata.name} {.status.phase} {.status.message}{"\n"}{end}'
  get csv "$csv" -o 'jsonpath={.status.phase} {.status.reason} {.status.message}{"\n"}'
  get pods,jobs -o wide
  kubectl -n $ns get events --sort-by=.lastTimestamp 2>/dev/null | tail -15
} >&2

remove() {
  step "the images have changed: removing the installed operator (WebApps stay)"
  kubectl -n $ns delete subscription.operators.coreos.com fettle --ignore-not-found >/dev/null
  kubectl -n $ns delete csv --all >/dev/null
  kubectl -n $ns delete catalogsource fettle-catalog --ignore-not-found >/dev/null # its unpacked bundles go with it
  kubectl -n $ns wait --for=delete pod -l app.kubernetes.io/name=fettle --timeout=300s >/dev/null
}

# refresh has every node pull the operator's image anew: under development the same tag is another image.
refresh() {
  local node overrides
  step "pulling the operator's image"
  kubectl -n $ns wait --for=create serviceaccount/default --timeout=300s >/dev/null # without it no pod is let in
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
      die "node ${node#node/} can't run the operator's image"
    }
    kubectl -n $ns delete pod "fettle-pull-${node#node/}" --grace-period=1 >/dev/null
  done
}

kubectl get crd subscriptions.operators.coreos.com >/dev/null 2>&1 ||
  die "the cluster of ${KUBECONFIG:-~/.kube/config} has no OLM (or does not answer): run 'make up', or install OLM there"

# The local cluster's catalog is named by its digest, so that one built anew is another one.
built_from=$catalog
if [ "${CLUSTER:-local}" != existing ]; then
  for image in operator bundle catalog; do
    [ -s "dist/images/$image.digest" ] || hack/image.sh $image >/dev/null
  done
  catalog=$catalog@$(sed 's/.*@//' dist/images/catalog.digest)
  built_from=$(sed 's/.*@//' dist/images/{operator,bundle,catalog}.digest | sha256sum | cut -c1-16)
fi

installed=$(get catalogsource fettle-catalog -o "jsonpath={.metadata.annotations['${mark//./\\.}']}")
if [ -n "$installed" ] && [ "$installed" != "$built_from" ]; then remove; fi
kubectl apply --server-side --field-manager=fettle-install -f config/namespace/namespace.yaml >/dev/null
if [ "${CLUSTER:-local}" != existing ] && [ "$installed" != "$built_from" ]; then refresh; fi

"$(tool kubebuilder kustomize)" build config/subscription |
  sed "s|image: ghcr.io/fettle-dev/fettle-catalog:.*|image: $catalog|" |
  kubectl apply --server-side --field-manager=fettle-install -f - >/dev/null
kubectl -n $ns annotate --overwrite catalogsource fettle-catalog "$mark=$built_from" >/dev/null

step "waiting for OLM to install $csv"
end=$((SECONDS + limit)) last='' failing=''
while :; do
  now=$(state)
  if [ "$now" != "$last" ]; then step "  $now"; fi
  last=$now
  case $now in
  *"$csv Succeeded"*) break ;;
  *"$csv Failed"* | *"plan Failed"*) # OLM tries again what took too long
    failing=${failing:-$SECONDS}
    ((SECONDS < failing + 120)) || { explain && die "OLM could not install $csv"; }
    ;;
  *) failing='' ;;
  esac
  ((SECONDS < end)) || { explain; die "$csv did not succeed in $limit s"; }
  sleep 1
done
kubectl -n $ns rollout status deployment/fettle-controller-manager --timeout=600s >/dev/null
step "OLM installed $csv: $(get deployment fettle-controller-manager -o 'jsonpath={.status.readyReplicas}') replicas of the operator are ready"
