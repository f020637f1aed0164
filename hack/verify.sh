#!/usr/bin/env bash
# Regenerates all that is generated and fails when that changes a file. The bundle's time of creation does not count.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
generated=(api config bundle bundle.Dockerfile catalog docs/reference)
# content prints a checksum of each generated file, without the time of creation.
content() { find "${generated[@]}" -type f -print0 | sort -z | while IFS= read -r -d '' f; do echo "$(grep -v '^ *createdAt: ' "$f" | sha256sum) $f"; done; }

for module in . hack test/alerts; do
  hack/retry.sh go -C $module mod download
  go -C $module mod tidy -diff || { echo "error: the requirements of ${module#.}/go.mod are not tidy: run 'go -C $module mod tidy'" >&2; exit 1; }
done

before=$(content)
make generate manifests bundle catalog docs >/dev/null
if ! changed=$(diff <(echo "$before") <(content)); then
  echo "$changed" | awk '/^[<>]/ {print "  " $4}' | sort -u
  echo "error: these generated files were not up to date; they are now: look at 'git diff' and commit them" >&2
  exit 1
fi
echo "verify: everything generated is up to date"
