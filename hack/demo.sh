#!/usr/bin/env bash
# Creates a local cluster with OLM, builds the images, installs Fettle by a Subscription, and creates a shop: a frontend, a backend, a
# PostgreSQL and a cache. It places an order, and fetches the page with the order's confirmation. DEMO=webapp creates only a WebApp.
# You can run it again at any time; existing objects are kept.
#
# A cluster of KUBECONFIG (CLUSTER=existing) needs the shop's image: SHOP_IMG, or a REGISTRY to push it to. Without both, it gets a WebApp.
set -euo pipefail
# shellcheck source=hack/shell.sh
source "$(dirname "${BASH_SOURCE[0]}")/shell.sh"

ns=${DEMO_NAMESPACE:-default} demo=${DEMO:-shop}
took=()
mkdir -p dist
if [ "${CLUSTER:-local}" = existing ] && [ -z "${SHOP_IMG:-}" ]; then
  if [ -n "${REGISTRY:-}" ]; then
    base=${IMAGE_BASE:-ghcr.io/fettle-dev/fettle}
    export SHOP_IMG=${base%/*}/shop:test
  else
    demo=${DEMO:-webapp}
  fi
fi
case $demo in
shop | webapp) ;;
*) die "DEMO=$demo: must be shop or webapp" ;;
esac

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
  local names=(operator bundle catalog)
  if [ "${CLUSTER:-local}" = existing ] && [ -z "${REGISTRY:-}" ]; then
    step "images: the cluster pulls ${IMG:-ghcr.io/fettle-dev/fettle:v${VERSION:-0.0.1}} and its bundle and catalog"
    return
  fi
  if [ "$demo" = shop ]; then names+=(shop); fi
  step "images: ${names[*]}"
  for image in "${names[@]}"; do step "  $(hack/image.sh "$image")"; done
  if [ "$demo" = shop ] && [ "${CLUSTER:-local}" != existing ]; then
    step "images of PostgreSQL and Valkey"
    hack/image/stand-ins.sh postgres-17 valkey
  fi
}

# apply FILE WHAT: applies a manifest. The webhook's Service may have no ready endpoints yet.
apply() {
  step "applying $1"
  wait_for 60 "$2 to be admitted" kubectl -n "$ns" apply -f "$1" || die "$(kubectl -n "$ns" apply -f "$1" 2>&1)"
}

forwards=()
# forward SERVICE LOCAL PORT: forwards a local port to a port of a Service until the script ends.
forward() {
  kubectl -n "$ns" port-forward "service/$1" "$2:$3" >>dist/port-forward.log 2>&1 &
  forwards+=($!)
  trap 'kill "${forwards[@]}" 2>/dev/null || true' EXIT
}

# address SERVICE LOCAL PORT: sets url to the address of a Service: that inside the local cluster, otherwise a forwarded local port.
address() {
  if [ "${CLUSTER:-local}" = existing ]; then
    forward "$@"
    url=http://127.0.0.1:$2
  else
    url=http://$(kubectl -n "$ns" get service "$1" -o 'jsonpath={.spec.clusterIP}:{.spec.ports[0].port}')
  fi
}

fetch() { curl -fsS --max-time 15 "$1" -o dist/demo-page.html; }

webapp() {
  local app=demo-app
  apply config/samples/apps_v1_webapp.yaml "WebApp $app"
  step "waiting for WebApp $app to be Ready"
  kubectl -n "$ns" wait "webapp/$app" --for=condition=Ready --timeout=180s >/dev/null || {
    kubectl -n "$ns" get webapp "$app" -o wide
    kubectl -n "$ns" get pods -l "app.kubernetes.io/instance=$app"
    die "WebApp $app is not Ready; see the column MESSAGE above"
  }
  kubectl -n "$ns" get webapp,deployment,service,pdb,pods -l app.kubernetes.io/managed-by=fettle
  kubectl -n "$ns" get webapp "$app"
}

webapp_page() {
  address demo-app 18080 80
  url=$url/
  wait_for 30 "$url" fetch "$url" || die "Service demo-app does not answer at $url: $(curl -sS --max-time 5 "$url" 2>&1 >/dev/null)"
  step "curl $url"
  sed 's/^/        /' dist/demo-page.html
}

shop() {
  sed "s|ghcr.io/fettle-dev/shop:test|${SHOP_IMG:-ghcr.io/fettle-dev/shop:test}|" hack/demo-shop.yaml >dist/demo-shop.yaml
  apply dist/demo-shop.yaml "EcommercePlatform shop"
  step "waiting for EcommercePlatform shop to be Ready"
  kubectl -n "$ns" wait ecommerceplatform/shop --for=condition=Ready --timeout=600s >/dev/null || {
    kubectl -n "$ns" get ecommerceplatform shop -o wide
    kubectl -n "$ns" get pods -l platform=shop
    die "EcommercePlatform shop is not Ready; see the column MESSAGE above"
  }
  kubectl -n "$ns" get appstack,postgresql,webapp,pods,services,pvc -l platform=shop
  kubectl -n "$ns" get ecommerceplatform shop
}

# place URL KEY: places an order once for the key.
place() {
  curl -fsS --max-time 15 -H "Idempotency-Key: $2" -d '{"product": "espresso", "quantity": 2}' "$1/orders" -o dist/demo-order.json
}

order() {
  local key backend frontend
  key=demo-$(date +%s)
  address shop-backend 18081 8080
  backend=$url
  address shop-frontend 18080 8080
  frontend=$url
  wait_for 60 "an order at $backend/orders" place "$backend" "$key" || die "the backend accepts no order: $(place "$backend" "$key" 2>&1)"
  step "curl -H 'Idempotency-Key: $key' -d '{\"product\": \"espresso\", \"quantity\": 2}' $backend/orders"
  sed 's/^/        /' dist/demo-order.json
  url="$frontend/?order=$key"
  wait_for 30 "$url" fetch "$url" || die "the frontend does not answer at $url: $(curl -sS --max-time 15 "$url" 2>&1 >/dev/null)"
  grep -q 'id="confirmed"' dist/demo-page.html || die "the page at $url does not show the order: see dist/demo-page.html"
  step "curl $url"
  grep -E 'id="(confirmed|count)"' dist/demo-page.html | sed -e 's/<[^>]*>//g' -e 's/^/        /'
}

try() { printf '  %-60s # %s' "$1" "$2"; }

# try_next: prints commands for the objects of the demo.
try_next() {
  if [ "$demo" = webapp ]; then
    cat <<END
$(try "kubectl get webapps -A" "all WebApps with their status")
$(try "kubectl -n $ns scale webapp demo-app --replicas=5" "scale up")
$(try "kubectl -n $ns patch webapp demo-app --type=merge -p '{\"spec\":{\"image\":\"nginx:nope\"}}'" "a failed rollout: the old pods stay available")
$(try "kubectl -n $ns get webapp demo-app -o wide" "the reason of the failed rollout")
$(try "kubectl -n $ns delete deployment demo-app" "Fettle re-creates it")
$(try "kubectl explain webapp.spec" "all fields of a WebApp")
END
    return
  fi
  cat <<END
$(try "kubectl -n $ns get all -l platform=shop" "all that belongs to the shop")
$(try "kubectl -n $ns get ecommerceplatform shop -o yaml" "the components, and the settings of the environment")
$(try "kubectl -n $ns patch ecp shop --type=merge -p '{\"spec\":{\"environment\":\"staging\"}}'" "two instances of everything")
$(try "kubectl -n $ns delete pod shop-db-0" "with two instances: a failover")
$(try "kubectl -n $ns delete ecommerceplatform shop" "Fettle keeps the volumes; apply dist/demo-shop.yaml again")
$(try "kubectl explain ecommerceplatform.spec" "all fields of an EcommercePlatform")
END
}

run='later run'
[ -d "${FETTLE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fettle}/tools" ] || run='first run'
timed "cluster with OLM" cluster
find_kubectl
timed "images built and pushed" images
timed "Fettle installed by OLM" hack/olm-install.sh
if [ "$demo" = shop ]; then
  timed "EcommercePlatform Ready" shop
  timed "order placed" order
  result="EcommercePlatform \"shop\" serves its page at"$'\n'"  $url"
else
  timed "WebApp Ready" webapp
  timed "page fetched" webapp_page
  result='WebApp "demo-app" serves the page above.'
fi
[ "${CLUSTER:-local}" = existing ] || [ "$demo" = webapp ] || hack/record.sh "make demo, $run" $SECONDS

cat <<END

Done in $SECONDS s: OLM installed Fettle from its catalog, and $result
$(printf '%s\n' "${took[@]}")

Try next, after
  export KUBECONFIG=${KUBECONFIG:-$HOME/.kube/config} PATH=${kubectl%/*}:\$PATH
then
$(try_next)
$(try "kubectl -n fettle-system get csv,subscription,pods" "the OLM installation of Fettle")
$([ "${CLUSTER:-local}" = existing ] || try "make up" "add the images of the tests")
$([ "${CLUSTER:-local}" = existing ] || try "make down" "delete the cluster")
END
