#!/usr/bin/env bash
# Breaks the crate once for each patch in mutants/, in a scratch copy, and demands that the model
# named in the patch's first line notices. Prints `killed k of k`; fails if one survives.
# With arguments, only the patches so named: `mutants.sh store-instead-of-exchange`.
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
target="${MUTANTS_TARGET_DIR:-$root/target/mutants}"
export RUSTFLAGS="${RUSTFLAGS:-} --cfg tollgate_loom"
export LOOM_MAX_PREEMPTIONS="${LOOM_MAX_PREEMPTIONS:-2}"

copy() { # a fresh copy of the tracked and new files; the examples are not built
    rm -rf "$scratch/crate" && mkdir "$scratch/crate"
    (cd "$root" && git ls-files --cached --others --exclude-standard -z |
        xargs -0 cp --parents --target-directory "$scratch/crate" 2>/dev/null || true)
}

models() { # the model's test, in its test file: `models words take_against_take`
    (cd "$scratch/crate" && cargo test --quiet --package tollgate-loom-tests --profile models \
        --target-dir "$target" --test "$1" "${@:2}")
}

killed=0 total=0
for patch in "$root"/loom-tests/mutants/*.patch; do
    name="$(basename "$patch" .patch)"
    if [ $# -gt 0 ] && [[ " $* " != *" $name "* ]]; then continue; fi
    total=$((total + 1))
    read -r _ file model < "$patch" # the first line: `model: FILE TEST`
    copy
    (cd "$scratch/crate" && patch --quiet --strip=1 < "$patch")
    models "$file" --no-run 2> "$scratch/build" || { cat "$scratch/build"; exit 1; }
    if models "$file" -- --exact "$model" > "$scratch/log" 2>&1; then
        echo "SURVIVED $name ($file $model)"
    elif grep -q '1 failed' "$scratch/log"; then
        killed=$((killed + 1))
        echo "killed $name ($file $model)"
    else
        echo "DID NOT RUN $name ($file $model)"; tail -20 "$scratch/log"
    fi
done
echo "killed $killed of $total"
[ "$killed" -eq "$total" ] && [ "$total" -gt 0 ]
