"""Run a command in a user-mode node with cgroup v2, in the project's folder.

    python -m tools.nodes [--systemd] [--deadline SECONDS] COMMAND...

    python -m tools.nodes cat /sys/fs/cgroup/cgroup.controllers
    python -m tools.nodes --systemd .venv/bin/python -m pytest tests/unit/host

Exit codes: the command's; 124 it did not end in time; 125 there is no node; 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys

from tools.nodes.machine import Node, NodeError
from tools.runtimes.machine import MissingError


def main() -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.nodes", description=__doc__.splitlines()[0])
    parser.add_argument("--systemd", action="store_true", help="systemd is process 1")
    parser.add_argument("--deadline", type=float, default=1800, help="seconds in all (default: 1800)")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    if not arguments.command:
        parser.error("a command is required")
    try:
        return Node(arguments.deadline, systemd=arguments.systemd).run(arguments.command, {})
    except MissingError as error:
        print(f"error: {error}", file=sys.stderr)
        return 125
    except NodeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 124 if "within" in str(error) else 125
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
