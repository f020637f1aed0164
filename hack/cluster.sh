#!/usr/bin/env bash
# Runs a command of the local cluster (go run ./cluster): up, down, status, load and others.
set -euo pipefail
# shellcheck source=hack/shell.sh
source "$(dirname "${BASH_SOURCE[0]}")/shell.sh"

exec go -C hack run ./cluster "$@"
