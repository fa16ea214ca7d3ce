#!/bin/sh
# Gets what the benchmarks need, then runs them:
#
#   scripts/bench.sh                    instructions and peers
#   scripts/bench.sh instructions       instructions per command, under callgrind; fails if a limit is exceeded
#   scripts/bench.sh peers [ARGS …]     throughput, messages, memory and sending beside other clients: see benches/peers/src/main.rs
#   scripts/bench.sh build              clean release builds of redefer and of the `redis` crate, timed
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

instructions() {
    command -v valgrind >/dev/null || debian valgrind
    cargo bench --quiet --features testing --bench instructions -- "$@"
}

peers() {
    [ -e /usr/include/hiredis/hiredis.h ] || debian libhiredis-dev
    case " $* " in
    *" benchmark "*) command -v redis-benchmark >/dev/null || debian redis-tools ;;
    esac
    cargo run --release --quiet --manifest-path benches/peers/Cargo.toml -- "$@"
}

case "${1-all}" in
all)
    # A limit that is exceeded does not keep the other tables from being printed.
    failed=0
    instructions || failed=$?
    peers
    exit "$failed"
    ;;
instructions | peers) "$@" ;;
build) peers --rounds 3 build ;;
*)
    sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
