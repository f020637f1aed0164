#!/usr/bin/env bash
# Builds the operator as a static binary, and fettle-wal beside it.
#
#   hack/build.sh FILE [ARCHITECTURE]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
architecture=${2:-}
# The tags leave out a tracer with templates, which keeps every exported method in the binary (30 MB), and the gRPC of Google Cloud Storage,
# which is used over HTTP.
build() {
  CGO_ENABLED=0 GOOS=linux GOARCH=${architecture:-$(go env GOARCH)} go build -trimpath -buildvcs=false -tags grpcnotrace,disable_grpc_modules \
    -ldflags "-s -w -X github.com/fettle-dev/fettle/internal/cmd.Version=v${VERSION:-0.0.1}" -o "$1" "$2"
}
build "$1" .
build "$(dirname "$1")/fettle-wal" ./cmd/fettle-wal
# A dependency that calls methods by name undoes this: go build -ldflags=-dumpdep shows it as <ReflectMethod>.
limit=80000000 size=$(stat -c %s "$1")
[ "$size" -lt $limit ] || { echo "error: $1 has $size bytes, more than $limit: find the dependency that makes it grow" >&2; exit 1; }
