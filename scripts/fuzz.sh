#!/bin/sh
# fuzz.sh SECONDS [TARGET...]: runs each target of fuzz/fuzz_targets (or those named) for so many seconds.
set -eu

cd "$(dirname "$0")/.."
seconds=${1:?usage: fuzz.sh SECONDS [TARGET...]}
shift
if [ $# = 0 ]; then
    for file in fuzz/fuzz_targets/*.rs; do set -- "$@" "$(basename "$file" .rs)"; done
fi

if ! cargo fuzz --version >/dev/null 2>&1; then
    cargo install --quiet --locked cargo-fuzz || {
        echo "fuzz.sh: skipped: cargo-fuzz is not installed and could not be" >&2
        # A machine without a network has not failed; CI has.
        if [ -n "${CI:-}" ]; then exit 1; else exit 0; fi
    }
fi

# Coverage needs unstable compiler options: those of a nightly toolchain, else the stable one is told to take them.
if cargo +nightly --version >/dev/null 2>&1; then
    toolchain=+nightly
else
    toolchain=+$(rustc --version | cut -d ' ' -f 2)
    cargo "$toolchain" --version >/dev/null 2>&1 || toolchain=+stable
    export RUSTC_BOOTSTRAP=1
fi

for target in "$@"; do
    echo "fuzz.sh: $target for $seconds s ($toolchain)"
    mkdir -p "fuzz/corpus/$target"
    # No sanitizer: they watch memory, which safe Rust does by itself, and cost most of the speed.
    cargo "$toolchain" fuzz run --sanitizer none "$target" -- \
        -max_total_time="$seconds" -timeout=10 -max_len=65536 -verbosity=0 -print_final_stats=1
done
