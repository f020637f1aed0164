#!/usr/bin/env bash
# Regenerates all generated files and fails if one of them changes. The bundle's createdAt does not count.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
generated=(api config bundle bundle.Dockerfile catalog charts docs)
# content prints a checksum of each generated file, without createdAt.
content() { find "${generated[@]}" -type f -print0 | sort -z | while IFS= read -r -d '' f; do echo "$(grep -v '^ *createdAt: ' "$f" | sha256sum) $f"; done; }

for file in $(git ls-files '*go.mod'); do
  module=$(dirname "$file")
  hack/retry.sh go -C "$module" mod download
  go -C "$module" mod tidy -diff || { echo "error: $module/go.mod is not tidy: run 'go -C $module mod tidy'" >&2; exit 1; }
done

before=$(content)
make generate manifests bundle catalog chart docs >/dev/null
if ! changed=$(diff <(echo "$before") <(content)); then
  echo "error: these generated files were out of date. They are regenerated: check 'git diff' and commit them" >&2
  echo "$changed" | awk '/^[<>]/ {print "  " $4}' | sort -u
  exit 1
fi
echo "verify: all generated files are up to date"
