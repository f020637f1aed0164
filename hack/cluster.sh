#!/usr/bin/env bash
# Runs a command of the local cluster (go run ./cluster): up, down, status, load and others. Before up it builds the cluster's
# programs in one run, which prints its progress.
set -euo pipefail
# shellcheck source=hack/shell.sh
source "$(dirname "${BASH_SOURCE[0]}")/shell.sh"

if [ "${1:-}" = up ]; then hack/tools/bin kubernetes olm opm coredns crane >/dev/null; fi
# The same flags as in hack/tools/bin, so that packages are compiled once.
CGO_ENABLED=0 exec go -C hack run -trimpath ./cluster "$@"
