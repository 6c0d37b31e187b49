"""The command: run a command in a guest with cgroup v2 and two NUMA nodes, in the project's folder.

    python -m tools.guest [--deadline SECONDS] COMMAND...

    python -m tools.guest .venv/bin/python -m pytest tests/real/test_oci_spec.py
    python -m tools.guest cat /sys/fs/cgroup/cgroup.controllers

Exit codes: the command's own; 124 it exceeded the deadline; 125 the guest did not start; 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys

from tools.guest.machine import Guest, GuestError
from tools.runtimes.machine import MissingError


def main() -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.guest", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--deadline", type=float, default=1800, help="seconds until the guest is stopped (default: 1800)"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    if not arguments.command:
        parser.error("a command is required")
    try:
        return Guest(arguments.deadline).run(arguments.command, {})
    except (MissingError, GuestError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 125
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
