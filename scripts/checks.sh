# For scripts that make a list of checks in a temporary folder, which source this file.
# shellcheck shell=bash

work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
passed=0
failed=0

check() { # WHAT COMMAND...
  local what=$1
  shift
  if "$@" >"$work/output" 2>&1; then
    echo "ok: $what"
    passed=$((passed + 1))
  else
    echo "failed: $what"
    cat -- "$work/output"
    failed=$((failed + 1))
  fi
}
