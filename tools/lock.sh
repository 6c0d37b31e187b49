#!/bin/sh
# Resolve pyproject.toml into uv.lock, and export the lock as hashed requirement files for pip.
# `tools/lock.sh --check` changes nothing and fails when a committed file is out of date.
# `tools/lock.sh --upgrade` takes the newest versions that pyproject.toml allows.
set -eu
cd "$(dirname "$0")/.."
uv=$(command -v "${UV:-.venv/bin/uv}" || command -v uv) || { echo "lock: no uv; try: make venv" >&2; exit 1; }

export_to() {    # export_to FILE OPTIONS...
    file=$1; shift
    {
        echo "# Written by tools/lock.sh from uv.lock; pip install --require-hashes -r requirements/${file##*/}"
        "$uv" export --quiet --frozen --no-default-groups --no-emit-project --no-header --format requirements.txt "$@"
    } > "$file"
}

check=
case "${1:-}" in
    --check) check=1 ;;
    --upgrade) "$uv" lock --quiet --upgrade ;;
    "") "$uv" lock --quiet ;;
    *) echo "usage: tools/lock.sh [--check|--upgrade]" >&2; exit 2 ;;
esac
out=requirements
if [ -n "$check" ]; then
    "$uv" lock --quiet --check
    out=$(mktemp -d); trap 'rm -rf "$out"' EXIT
fi
export_to "$out/base.txt"
export_to "$out/agent.txt" --extra agent
export_to "$out/build.txt" --only-group build
export_to "$out/demo.txt" --group demo
export_to "$out/plugins.txt" --extra hook-injector --extra resource-annotator
export_to "$out/dev.txt" --group dev --all-extras
if [ -n "$check" ]; then
    for name in base agent build demo dev plugins; do
        cmp -s "$out/$name.txt" "requirements/$name.txt" || { echo "requirements/$name.txt is out of date; try: make lock" >&2; exit 1; }
    done
fi
