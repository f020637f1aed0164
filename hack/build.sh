#!/usr/bin/env bash
# Builds the operator as a static binary.
#
#   hack/build.sh FILE [ARCHITECTURE]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
CGO_ENABLED=0 GOOS=linux GOARCH=${2:-$(go env GOARCH)} go build -trimpath -buildvcs=false \
  -ldflags "-s -w -X github.com/fettle-dev/fettle/internal/cmd.Version=v${VERSION:-0.0.1}" -o "$1" .
