#!/bin/sh
# Gets what the benchmarks need, then runs them: instructions counted under callgrind, then throughput beside other
# clients.
set -eu

cd "$(dirname "$0")/.."

# debian PACKAGE: installs it, as root or with sudo.
debian() {
    root=""
    if [ "$(id -u)" != 0 ]; then root=sudo; fi
    echo "bench.sh: installing Debian's $1" >&2
    $root apt-get update -qq >&2
    $root apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends "$1" >&2
}

command -v valgrind >/dev/null || debian valgrind
[ -e /usr/include/hiredis/hiredis.h ] || debian libhiredis-dev

# The runner must be of the same version as the library.
version=$(cargo tree --quiet --all-features --edges normal,dev --prefix none | sed -n 's/^gungraun v\([0-9.]*\).*/\1/p' | head -n 1)
if [ -n "$version" ] && [ "$(gungraun-runner --version 2>/dev/null)" != "gungraun-runner $version" ]; then
    cargo install --quiet --locked --force gungraun-runner --version "$version"
fi

cargo bench --bench instructions
cargo run --release --quiet --manifest-path benches/peers/Cargo.toml
