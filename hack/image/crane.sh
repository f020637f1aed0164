# shellcheck shell=bash
# Functions that build reproducible images with crane, without a container engine. Source hack/shell.sh first.
#
# The local cluster's registry mirrors all public registries, so images keep their published names there.

shopt -s inherit_errexit # an error in $(publish ...) stops the script
local_registry=172.30.0.1:5000 registry=${REGISTRY:-}
[ "${CLUSTER:-local}" = existing ] || registry=${REGISTRY:-$local_registry}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# crane ARGUMENT...: runs crane. It trusts the local cluster's CA and uses no proxy for the local cluster's registry.
crane() {
  crane=${crane:-$(tool crane crane)}
  (
    if [ "$registry" = $local_registry ]; then
      [ -r "$state/pki/ca.crt" ] || die "no local cluster found: run 'make up' first, or set REGISTRY"
      export SSL_CERT_FILE=$state/pki/ca.crt NO_PROXY=${registry%:*} no_proxy=${registry%:*}
    fi
    "$crane" "$@" 2>"$scratch/crane.log" || { cat "$scratch/crane.log" >&2; exit 1; }
  )
}

# pushed_name IMAGE: prints the name of the image in the registry.
pushed_name() { echo "$registry/${1#*/}"; }

# layer FILE DIRECTORY [OPTION...]: writes the directory as a reproducible layer, with options of tar.
layer() {
  local file=$1 directory=$2
  shift 2
  (cd "$directory" && find . -mindepth 1 -printf '%P\0' | LC_ALL=C sort -z |
    tar -c --null --no-recursion -T - --numeric-owner --mtime=@0 "$@") >"$file"
}

# publish IMAGE ARCHITECTURE CONFIGURATION LAYER...: pushes an image of the layers with the configuration, as JSON, and prints
# its digest.
publish() {
  local image config arch=$2 json=$3 layers=()
  image=$(pushed_name "$1")
  shift 3
  for file; do layers+=(--new_layer "$file"); done
  crane append --new_tag "$image" "${layers[@]}" >/dev/null
  config=$(crane config "$image")
  config=${config/'"config":{}'/"\"config\":$json"}
  config=${config/'"architecture":""'/"\"architecture\":\"$arch\""}
  config=${config/'"os":""'/'"os":"linux"'}
  crane edit config "$image" --tag "$image" <<<"$config" >/dev/null
  crane digest "$image"
}
