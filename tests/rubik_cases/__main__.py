"""Run recorded outcomes of rubik's services: `python -m tests.rubik_cases FILE`."""

from __future__ import annotations

import sys

from tests.rubik_cases import run_case
from tests.support import case_program

if __name__ == "__main__":
    keys = ("id", "service", "stage", "input", "expect")
    sys.exit(case_program.main("tests.rubik_cases", __doc__ or "", "rubik", run_case, keys))
