"""The demo: ten-line Python plugins change a real container.

    python tools/demo/demo.py [--containerd 1.7|2.1|2.4] [--dry] [--keep]

It uses a private engine or containerd, which is removed at the end, also after Ctrl-C or SIGTERM.
Exit codes: 0 shown, 1 cannot run or failed, 2 wrong usage, 130 and 143 interrupted.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from types import FrameType

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C says nothing while all else is loaded
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.demo import with_containerd, with_engine
from tools.demo.screen import Screen
from tools.runtimes import RELEASES, MissingError
from tools.runtimes.leftovers import sweep


def main() -> int:
    """Run the demo and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    runtime = parser.add_mutually_exclusive_group()
    runtime.add_argument("--containerd", choices=RELEASES, help="in a real containerd instead of our own engine")
    runtime.add_argument("--dry", action="store_true", help="without a container: no root, no OCI runtime")
    parser.add_argument("--keep", action="store_true", help="leave everything running at the end, to try things out")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, _terminated)
    screen = Screen()
    try:
        sweep()
        if arguments.containerd:
            with_containerd.run(screen, arguments.containerd, keep=arguments.keep)
        else:
            with_engine.run(screen, keep=arguments.keep, dry=arguments.dry)
    except MissingError as error:
        print(f"error: the demo cannot run here: it needs {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; everything is cleaned up", file=sys.stderr)
        return 130
    except SystemExit:
        print("terminated; everything is cleaned up", file=sys.stderr)
        return 143
    return 0


def _terminated(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(143)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())
