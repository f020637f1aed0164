#!/usr/bin/env bash
# Creates a local cluster with OLM, builds the images, installs Fettle by a Subscription, creates a WebApp and fetches its page.
# You can run it again at any time; existing objects are kept.
set -euo pipefail
# shellcheck source=hack/shell.sh
source "$(dirname "${BASH_SOURCE[0]}")/shell.sh"

app=demo-app ns=${DEMO_NAMESPACE:-default}
took=()

# timed NAME COMMAND...: runs the command and records its duration.
timed() {
  local name=$1 started=$SECONDS
  shift
  "$@"
  took+=("$(printf '  %-34s %4d s' "$name" $((SECONDS - started)))")
}

cluster() {
  if [ "${CLUSTER:-local}" = existing ]; then
    kubectl version >/dev/null || die "the cluster of KUBECONFIG=${KUBECONFIG:-~/.kube/config} is unreachable"
    return
  fi
  step "local cluster (the first run builds Kubernetes)"
  hack/cluster.sh up --images cluster
}

images() {
  if [ "${CLUSTER:-local}" = existing ] && [ -z "${REGISTRY:-}" ]; then
    step "images: the cluster pulls ${IMG:-ghcr.io/fettle-dev/fettle:v${VERSION:-0.0.1}} and its bundle and catalog"
    return
  fi
  step "images of the operator, its bundle and its catalog"
  for image in operator bundle catalog; do step "  $(hack/image.sh $image)"; done
}

webapp() {
  step "applying config/samples/apps_v1_webapp.yaml"
  # The webhook's Service may have no ready endpoints yet.
  wait_for 60 "WebApp $app to be admitted" kubectl -n "$ns" apply -f config/samples/apps_v1_webapp.yaml ||
    die "$(kubectl -n "$ns" apply -f config/samples/apps_v1_webapp.yaml 2>&1)"
  step "waiting for WebApp $app to be Ready"
  kubectl -n "$ns" wait "webapp/$app" --for=condition=Ready --timeout=180s >/dev/null || {
    kubectl -n "$ns" get webapp "$app" -o wide
    kubectl -n "$ns" get pods -l "app.kubernetes.io/instance=$app"
    die "WebApp $app is not Ready; see the column MESSAGE above"
  }
  kubectl -n "$ns" get webapp,deployment,service,pdb,pods -l app.kubernetes.io/managed-by=fettle
  kubectl -n "$ns" get webapp "$app"
}

fetch() { curl -fsS --max-time 5 "$1" -o dist/demo-page.html; }

page() {
  mkdir -p dist
  local url
  if [ "${CLUSTER:-local}" = existing ]; then
    kubectl -n "$ns" port-forward "service/$app" 18080:80 >dist/port-forward.log 2>&1 &
    trap 'kill %1 2>/dev/null || true' EXIT
    url=http://127.0.0.1:18080/
  else
    url=http://$(kubectl -n "$ns" get service "$app" -o 'jsonpath={.spec.clusterIP}')/
  fi
  wait_for 30 "$url" fetch "$url" || die "Service $app does not answer at $url: $(curl -sS --max-time 5 "$url" 2>&1 >/dev/null)"
  step "curl $url"
  sed 's/^/        /' dist/demo-page.html
}

try() { printf '  %-60s # %s' "$1" "$2"; }

run='later run'
[ -d "${FETTLE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fettle}/tools" ] || run='first run'
timed "cluster with OLM" cluster
find_kubectl
timed "images built and pushed" images
timed "Fettle installed by OLM" hack/olm-install.sh
timed "WebApp Ready" webapp
timed "page fetched" page
[ "${CLUSTER:-local}" = existing ] || hack/record.sh "make demo, $run" $SECONDS

cat <<END

Done in $SECONDS s: OLM installed Fettle from its catalog, and WebApp "$app" serves the page above.
$(printf '%s\n' "${took[@]}")

Try next, after
  export KUBECONFIG=${KUBECONFIG:-$HOME/.kube/config} PATH=${kubectl%/*}:\$PATH
then
$(try "kubectl get webapps -A" "all WebApps with their status")
$(try "kubectl -n $ns scale webapp $app --replicas=5" "scale up")
$(try "kubectl -n $ns patch webapp $app --type=merge -p '{\"spec\":{\"image\":\"nginx:nope\"}}'" "a failed rollout: the old pods stay available")
$(try "kubectl -n $ns get webapp $app -o wide" "the reason of the failed rollout")
$(try "kubectl -n $ns delete deployment $app" "Fettle re-creates it")
$(try "kubectl explain webapp.spec" "all fields of a WebApp")
$(try "kubectl -n fettle-system get csv,subscription,pods" "the OLM installation of Fettle")
$([ "${CLUSTER:-local}" = existing ] || try "make up" "add the images of PostgreSQL and of the tests")
$([ "${CLUSTER:-local}" = existing ] || try "make down" "delete the cluster")
END
