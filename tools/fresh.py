"""Try the README's commands on a bare Debian: a new chroot with only Python, make and git.

    .venv/bin/python tools/fresh.py                  make demo, then make test
    .venv/bin/python tools/fresh.py lint             other goals of the Makefile

The project is a clone of HEAD, so that a missing file shows. The machine's configuration of apt, pip, proxies and
certificates is copied. The chroot lies on a tmpfs in a separate mount and process namespace, which ends with this
process. The bare system is kept as a tarball in the cache of development tools. Needs root, debootstrap, util-linux
and git.
"""

import argparse
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.runtimes.machine import MissingError, architecture, cache_dir  # noqa: E402
from tools.runtimes.mirror import find_mirror  # noqa: E402

BARE = "python3,make,git,ca-certificates"
GOALS = ["demo", "test"]
INSIDE = "usr/src/nri"
TMPFS = "size=8g,mode=755"
# What says how this machine reaches the outside, by the start of the name.
PASSED_ON = ("PIP_", "SSL_", "REQUESTS_CA", "CURL_CA", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "GOPROXY", "GOSUMDB")
CONFIGURATION = (
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/pip.conf",
    "/etc/ssl/certs/ca-certificates.crt",
    "/usr/local/share/ca-certificates",
    "/etc/apt/sources.list",
    "/etc/apt/sources.list.d",
    "/etc/apt/keyrings",
    "/usr/share/keyrings",
)


def say(text: str) -> None:
    """One line of progress."""
    print(f"fresh: {text}", flush=True)


def run(*argv: str | Path) -> None:
    """Run a command; a failure ends all of this with one line."""
    process = subprocess.run([str(word) for word in argv], stdin=subprocess.DEVNULL, check=False)
    if process.returncode:
        sys.exit(f"fresh: error: {' '.join(map(str, argv))} ended with {process.returncode}")


def bare_system(suite: str) -> Path:
    """The tarball of the bare system, made with debootstrap the first time."""
    tarball = cache_dir() / f"fresh-{suite}-{architecture()}.tar"
    if tarball.exists():
        return tarball
    mirror = find_mirror()
    with tempfile.TemporaryDirectory(prefix="nri-debootstrap-", dir=cache_dir()) as folder:
        say(f"making a bare {suite} with debootstrap (once; kept as {tarball})")
        keyring = [f"--keyring={mirror.keyring}"] if mirror.keyring else []
        target = Path(folder, "system")
        log = Path(folder, "log")
        command = ["debootstrap", "--variant=minbase", f"--include={BARE}", *keyring, suite, str(target), mirror.uri]
        with log.open("w") as output:
            process = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False)
        if process.returncode:
            tail, code = "\n".join(log.read_text().splitlines()[-10:]), process.returncode
            sys.exit(f"{tail}\nfresh: error: debootstrap ended with {code}; is the Debian mirror reachable?")
        run("tar", "-C", target, "--one-file-system", "-cf", f"{tarball}.new", ".")
        Path(f"{tarball}.new").rename(tarball)
    return tarball


def copy_configuration(system: Path) -> None:
    """Give the chroot this machine's ways to the outside."""
    sources = [Path(name) for name in CONFIGURATION]
    # Of apt's own settings only those about fetching: others call programs that are not there.
    settings = sorted(Path("/etc/apt/apt.conf.d").glob("*"))
    sources += [path for path in settings if "Acquire::" in path.read_text(errors="replace")]
    for source in sources:
        target = system / source.relative_to("/")
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        elif source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def build(system: Path, tarball: Path) -> None:
    """Lay out the chroot below `system`; runs in the namespace that will go away."""
    run("mount", "-t", "tmpfs", "-o", TMPFS, "nri-fresh", system)
    run("tar", "-C", system, "-xf", tarball)
    copy_configuration(system)
    run("mount", "-t", "proc", "proc", system / "proc")
    for folder in ("sys", "dev"):
        run("mount", "--rbind", f"/{folder}", system / folder)
    for folder in ("run", "tmp"):
        run("mount", "-t", "tmpfs", "tmpfs", system / folder)
    run("git", "clone", "--quiet", f"file://{ROOT}", system / INSIDE)


def enter(system: Path) -> None:
    """Make `system` the root of this namespace. A plain chroot will not do: in one, runc mounts the wrong cgroup."""
    (system / "old").mkdir()
    os.chdir(system)
    run("pivot_root", ".", "old")
    os.chdir("/")
    run("umount", "--lazy", "/old")


def run_goals(goals: list[str]) -> int:
    """`make GOAL`, one after the other; returns an exit code."""
    environment = {
        "HOME": "/root",
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG": "C.UTF-8",
        "TERM": os.environ.get("TERM", "dumb"),
    }
    environment |= {name: text for name, text in os.environ.items() if name.upper().startswith(PASSED_ON)}
    environment.pop("PIP_FIND_LINKS", None)  # a folder of this machine
    lines, worst = [], 0
    for goal in goals:
        say(f"make {goal}, on a bare Debian")
        start = time.monotonic()
        process = subprocess.run(
            ["make", "-C", f"/{INSIDE}", "--no-print-directory", goal],
            env=environment,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        result = f"FAILED ({process.returncode})" if process.returncode else "ok"
        lines.append(f"make {goal:<16}{time.monotonic() - start:>7.0f} s  {result}")
        worst = worst or process.returncode
    say("done:")
    print("\n".join(lines), flush=True)
    return int(worst != 0)


def outside(suite: str, goals: list[str]) -> int:
    """Make sure of the tarball, then start again in namespaces of our own."""
    if os.geteuid() != 0:
        sys.exit("fresh: error: a chroot needs root; try: sudo make fresh")
    for name in ("debootstrap", "unshare", "setpriv", "git", "tar", "pivot_root"):
        if shutil.which(name) is None:
            sys.exit(f"fresh: error: no {name}; try: apt-get install debootstrap util-linux git")
    tarball = bare_system(suite)
    changed = subprocess.run(["git", "-C", ROOT, "status", "--short"], capture_output=True, text=True, check=False)
    if changed.stdout:
        say(f"{len(changed.stdout.splitlines())} changed files are not committed, and so not tried")
    with tempfile.TemporaryDirectory(prefix="nri-fresh-") as folder:
        killed_with_us = ["setpriv", "--pdeathsig", "KILL"]
        namespaces = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"]
        command = [sys.executable, __file__, "--inside", folder, "--tarball", str(tarball), *goals]
        child = subprocess.Popen([*killed_with_us, *namespaces, *command], stdin=subprocess.DEVNULL)
        # unshare ignores SIGTERM; killed, it takes everything inside with it.
        signal.signal(signal.SIGTERM, lambda *_: child.kill())
        try:
            return child.wait()
        except KeyboardInterrupt:
            # The terminal sent it to the child too, which cleans up first.
            child.wait()
            return 130


def main() -> int:
    """Read the arguments and do one half: outside, or inside the namespaces."""
    parser = argparse.ArgumentParser(description="Run goals of the Makefile on a bare Debian, in a chroot.")
    parser.add_argument("goals", nargs="*", default=GOALS, help="goals of the Makefile (default: demo test)")
    parser.add_argument("--suite", default=platform.freedesktop_os_release().get("VERSION_CODENAME", "bookworm"))
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--tarball", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside is None:
        return outside(options.suite, options.goals)
    build(options.inside, options.tarball)
    enter(options.inside)
    return run_goals(options.goals)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except MissingError as error:
        sys.exit(f"fresh: error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
