"""The command: get, try and clean up private container runtimes.

    python -m tools.runtimes fetch [1.7 2.1 2.3 2.4]    get them into the cache
    python -m tools.runtimes check [1.7 2.1 2.3 2.4]    start each one, run a container in it, clean up
    python -m tools.runtimes look RUN_DIR           what a container sees in one that `make demo ARGS=--keep` left
    python -m tools.runtimes clean                  remove what interrupted runs left

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tools.runtimes import RELEASES, Containerd, Cri, MissingError, install
from tools.runtimes.leftovers import sweep
from tools.runtimes.look import look
from tools.runtimes.machine import ensure_packages


def say(line: str) -> None:
    """Print one line of progress at once."""
    print(line, flush=True)


def fetch(keys: list[str]) -> None:
    """Get releases into the cache."""
    for key in keys:
        say(f"{key}: {install(key, say)}")


def check(keys: list[str]) -> None:
    """Start each release and run one container in it; says how long each step took."""
    ensure_packages(say)
    for key in keys:
        installed = install(key, say)
        begin = time.monotonic()
        with Containerd(installed) as daemon:
            up = time.monotonic()
            pod = daemon.cri.run_pod("check")
            container = daemon.cri.run(pod, "main")
            name = daemon.cri.exec(container, "/bin/hostname").strip()
            ran = time.monotonic()
        end = time.monotonic()
        say(
            f"{key}: {installed}, {daemon.snapshotter}: up in {up - begin:.2f} s, "
            f"a container on {name} in {ran - up:.2f} s, cleaned up in {end - ran:.2f} s"
        )


def see(run_dir: str) -> None:
    """Run a container in a kept runtime and print what it sees."""
    socket = Path(run_dir, "cri.sock")
    if not socket.exists():
        raise MissingError(f"a running containerd in {run_dir}", "make demo ARGS=--keep leaves one and names it")
    cri = Cri(socket, socket.parent.name)
    for title, text in look(cri).rows().items():
        say(f"{title:<26} {text}")
    cri.close()


def clean() -> None:
    """Remove every run directory whose owner is gone, kept ones too."""
    removed = sweep(include_kept=True)
    say(f"removed {', '.join(map(str, removed))}" if removed else "nothing to clean up")


def main() -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.runtimes", description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("fetch", "check"):
        verbs.add_parser(verb).add_argument("release", nargs="*", help=f"any of {', '.join(RELEASES)}; default: all")
    verbs.add_parser("look").add_argument("run_dir")
    verbs.add_parser("clean")
    arguments = parser.parse_args()
    keys = getattr(arguments, "release", None) or list(RELEASES)
    if unknown := [key for key in keys if key not in RELEASES]:
        parser.error(f"unknown release {unknown[0]}; known: {', '.join(RELEASES)}")
    try:
        match arguments.verb:
            case "fetch":
                fetch(keys)
            case "check":
                check(keys)
            case "look":
                see(arguments.run_dir)
            case _:
                clean()
    except MissingError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
