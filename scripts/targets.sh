#!/usr/bin/env bash
# Checks that the crate compiles for platforms that the tests do not run on: those whose standard library can be had. The
# feature `tls` is left out, since ring compiles C, and the compiler for that would be one more thing to have.
set -euo pipefail
cd "$(dirname "$0")/.."

for target in x86_64-pc-windows-msvc aarch64-apple-darwin; do
    if ! rustup target list --installed 2>/dev/null | grep -qx "$target" &&
        ! timeout 300 rustup target add "$target" >/dev/null 2>&1; then
        echo "$target: its standard library cannot be had here; not checked"
        continue
    fi
    RUSTFLAGS="-D warnings" cargo check --quiet --target "$target" --target-dir target/targets --features serde,r2d2,testing
    echo "$target: compiles"
done
