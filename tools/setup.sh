#!/bin/sh
# Install what a make target needs; print it first, and do nothing if it is installed.
#
#   tools/setup.sh packages demo|test|fresh    system packages (installed as root with apt-get, else only named)
#   tools/setup.sh venv demo|dev               .venv with the locked requirements and this project, editable
#
# The same by hand, on any system with Python 3.11 or newer:
#   python3 -m venv .venv
#   .venv/bin/pip install --require-hashes -r requirements/dev.txt
#   .venv/bin/pip install --no-deps --no-build-isolation -e .
set -eu
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

say() { echo "setup: $*"; }
die() { echo "setup: error: $*" >&2; exit 1; }

# --- system packages: "Debian package:command or file that it installs" -----------------------------------------------

DEMO="runc:runc conmon:conmon skopeo:skopeo umoci:umoci busybox-static:busybox containernetworking-plugins:/usr/lib/cni/bridge ca-certificates:/etc/ssl/certs/ca-certificates.crt xz-utils:xz"
TEST="$DEMO crun:crun git:git gcc:gcc pkg-config:pkg-config libc6-dev:/usr/include/stdio.h make:make python3-dev:python3-config buildah:buildah systemd:systemd-analyze iptables:iptables iproute2:ip openssl:openssl qemu-system-x86:qemu-system-x86_64 chromium:chromium"
FRESH="debootstrap:debootstrap git:git"

is_there() {
    case "$1" in
        /*) [ -e "$1" ] ;;
        *) command -v "$1" >/dev/null 2>&1 ;;
    esac
}

apt_install() {    # apt_install PACKAGE...: as root with apt-get, else say what a person has to do
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || return 1
    say "installing the system packages: $*"
    log=$(mktemp)
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >"$log" 2>&1 </dev/null || {
        # An old list may still do; if it does not, the next command says so.
        say "warning: apt-get update failed: $(tail -n 1 "$log")"
    }
    if ! apt-get install -y -qq --no-install-recommends "$@" >"$log" 2>&1 </dev/null; then
        tail -n 15 "$log" >&2; rm -f "$log"
        die "apt-get could not install: $*. Is a Debian mirror reachable (see above and /etc/apt/sources.list.d)?"
    fi
    rm -f "$log"
}

packages() {
    missing=
    for row in $1; do
        is_there "${row#*:}" || missing="$missing ${row%%:*}"
    done
    [ -n "$missing" ] || return 0
    # shellcheck disable=SC2086  # a list of words
    apt_install $missing ||
        say "warning: missing:$missing; what needs them is skipped or says so. Install them as root (on Debian: apt-get install$missing)"
}

# --- what Ctrl-C ends ---------------------------------------------------------------------------------------------

# quietly COMMAND...: in a separate session, which Ctrl-C does not reach: Python would print a traceback.
quietly() {
    setsid "$@" </dev/null &
    child=$!
    trap 'end_child; echo "setup: interrupted; start it again to continue" >&2; exit 130' INT
    code=0
    wait "$child" || code=$?
    trap - INT
    return "$code"
}

end_child() {
    kill -s TERM -- "-$child" 2>/dev/null || :
    wait "$child" 2>/dev/null || :
}

# --- the virtual environment ---------------------------------------------------------------------------------------

fits() { "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

# The distribution's interpreter first: it is what a node has, and it is built with profiles, which those that version
# managers compile are not (a third slower under cold caches). PYTHON=... chooses another one.
find_python() {
    for python in ${PYTHON:-} /usr/bin/python3 python3 python3.11 python3.12 python3.13 python3.14; do
        if fits "$python"; then echo "$python"; return 0; fi
    done
    return 1
}

make_venv() {
    if [ -x .venv/bin/python ] && .venv/bin/python -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        return 0
    fi
    # Debian's own python3 has no ensurepip until python3-venv is installed.
    python=$(find_python) || { apt_install python3 python3-venv >&2 && python=$(find_python); } ||
        die "no Python 3.11 or newer with the venv module; install one (on Debian 12 or newer, as root: apt-get install python3-venv)"
    say "making .venv with $($python --version) ($(command -v "$python"))"
    rm -rf .venv
    quietly "$python" -m venv .venv
}

venv() {
    requirements=requirements/$1.txt
    make_venv
    wanted=$(cat "$requirements" pyproject.toml | cksum)
    for set in "$1" dev; do    # dev holds all that demo does
        [ "$(cat ".venv/.nri-$set" 2>/dev/null)" = "$(cat "requirements/$set.txt" pyproject.toml | cksum)" ] && return 0
    done
    say "installing $(grep -c '^[a-zA-Z]' "$requirements") Python packages from $requirements into .venv"
    quietly .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r "$requirements" ||
        die "pip could not install $requirements (see above). Is the package index reachable?"
    quietly .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
    echo "$wanted" > ".venv/.nri-$1"
}

case "${1:-} ${2:-}" in
    "packages demo") packages "$DEMO" ;;
    "packages test") packages "$TEST" ;;
    "packages fresh") packages "$FRESH" ;;
    "venv demo") venv demo ;;
    "venv dev") venv dev ;;
    *) echo "usage: tools/setup.sh packages demo|test|fresh, or tools/setup.sh venv demo|dev" >&2; exit 2 ;;
esac
