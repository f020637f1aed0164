#!/usr/bin/env bash
# Records how long a target took, for `make figures`.
#
#   hack/record.sh TARGET SECONDS [CONDITIONS]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
took="$2 s"
[ "$2" -lt 180 ] || took="$(($2 / 60)) min"
cpu=$(awk -F': ' '/^model name/ {print $2; exit}' /proc/cpuinfo)
mkdir -p dist/figures
cat >"dist/figures/time-$(tr -cs 'a-z0-9\n' - <<<"$1").json" <<END
{
  "command": "$1",
  "commit": "$(git describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null || echo unknown)",
  "date": "$(date -u +%F)",
  "machine": "$(nproc) cores of an $cpu, load $(cut -d' ' -f1 /proc/loadavg) at the end",
  "conditions": ["${3:-}"],
  "columns": ["Target", "Took"],
  "rows": [["$1", "$took"]]
}
END
