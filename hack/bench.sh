#!/usr/bin/env bash
# Measures Fettle beside a naive controller and a raw client, on an API server of its own: WebApps that exist when the
# contenders start, WebApps that are created while they run, and the memory of the manager. Results are in dist/bench.
#
#   hack/bench.sh              all three; BENCH_ARGS is added to each, such as "-n 200 -rounds 3"
#   hack/bench.sh ARGUMENT...  one run of test/bench with these arguments
set -euo pipefail
# shellcheck source=hack/shell.sh
source "$(dirname "${BASH_SOURCE[0]}")/shell.sh"

KUBEBUILDER_ASSETS=$(hack/tools/bin kubernetes)
export KUBEBUILDER_ASSETS
mkdir -p dist/bench
go build -o dist/bench/bench ./test/bench

bench() {
  step "bench $*"
  dist/bench/bench "$@"
}

if [ $# -gt 0 ]; then
  bench "$@"
  exit
fi
for what in "-load backlog" "-load burst" "-mode memory"; do
  # shellcheck disable=SC2086 # lists of arguments
  bench $what ${BENCH_ARGS:-}
done
