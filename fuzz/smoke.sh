#!/usr/bin/env bash
# Runs one fuzz target from its corpus: fuzz/smoke.sh TARGET SECONDS. What it finds stays beside the
# target: new inputs in TARGET.found/, those that fail in TARGET.crash-*.
set -euo pipefail
target=$1
seconds=$2
name=$(basename -- "$target")
corpus=$(dirname -- "${BASH_SOURCE[0]}")/corpus/$name
mkdir -p -- "$target.found"

status=0
output=$("$target" -max_total_time="$seconds" -max_len=8192 -timeout=10 -rss_limit_mb=2048 \
  -print_final_stats=1 -artifact_prefix="$target." "$target.found" "$corpus" 2>&1) || status=$?
runs=$(sed -n 's/^stat::number_of_executed_units: *//p' <<<"$output")
if ((status != 0 || ${runs:-0} == 0)); then
  grep -vE '^#[0-9]+\s|NEW_(FUNC|PC)' <<<"$output"
  printf '%s failed\n' "$name"
  exit 1
fi
printf '%s: %s runs, %s\n' "$name" "$runs" "$(grep -o 'cov: [0-9]*' <<<"$output" | tail -n 1)"
