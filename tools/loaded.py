"""Run the quick and the fault suites while eight loops keep every core busy, as on a node that has too much to do.

    python tools/loaded.py                 both suites, once
    python tools/loaded.py --loops 16 -- tests/faults -x

Nothing may fail here that passes on an idle machine: no limit below the request timeout may end a healthy connection.
The loops are processes of this program and end with it. Exit code: pytest's.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools import check  # noqa: E402

#: Ends with its parent, however that ends.
BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(100_000))"


def main(arguments: list[str]) -> int:
    """Start the loops, run the tests, end the loops."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--loops", type=int, default=8, metavar="N", help="busy processes beside the tests; default 8")
    parser.add_argument("pytest", nargs="*", help="for pytest, after --; default: the quick and the fault suites")
    options = parser.parse_args(arguments)
    chosen = options.pytest or [each for each in check.quick() if each != "--ignore=tests/faults"]
    print(f"loaded: {options.loops} busy loops beside: pytest {' '.join(chosen)}", flush=True)
    loops = [subprocess.Popen((sys.executable, "-c", BUSY)) for _ in range(options.loops)]
    try:
        return subprocess.run((sys.executable, "-m", "pytest", "-q", *chosen), cwd=ROOT, check=False).returncode
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
