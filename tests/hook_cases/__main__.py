"""Compare our hooks with recorded outcomes of Koordinator: ``python -m tests.hook_cases FILE [--compat reference]``.

Each case that comes out otherwise is shown as a diff. The last line is ``N passed, M failed``; cases of the original's
own helpers are left out, and counted in a line before it. Exit code 0 if all passed, 1 if one failed, if there was none
to run, or if a file cannot be read.
"""

import argparse
import logging
import sys

from nri.agent.koordinator.quirks import Quirks
from nri.config.json_lines import read_json_lines
from nri.errors import ConfigError
from tests.hook_cases import is_left_out, run_hook_case, wrong


def run(files: list[str], quirks: Quirks) -> int:
    """Run the cases of files; the exit code."""
    passed = failed = left_out = 0
    for case in (case for file in files for case in read_json_lines(file, wrong)):
        if "hook" not in case:
            continue
        if is_left_out(case):
            left_out += 1
            continue
        difference = run_hook_case(case, quirks)
        if difference is None:
            passed += 1
        else:
            failed += 1
            print(f"{difference}\n")
    if left_out:
        print(f"{left_out} left out: helpers that only the original has")
    if not passed + failed:
        print(f"{', '.join(files)}: no case of a hook in there, so nothing was run", file=sys.stderr)
    print(f"{passed} passed, {failed} failed")
    return int(bool(failed) or not passed)


def main() -> int:
    """Read the command line, and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.hook_cases", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", metavar="FILE", nargs="+", help="JSON lines, plain or xz")
    parser.add_argument(
        "--compat",
        choices=["reference", "default"],
        default="reference",
        help="decide as Koordinator does (default), or as this package does: then what differs is a deviation",
    )
    case = parser.parse_args()
    logging.disable()  # each case makes an agent, which logs what it does
    try:
        return run(case.files, Quirks.REFERENCE if case.compat == "reference" else Quirks.DEFAULT)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
