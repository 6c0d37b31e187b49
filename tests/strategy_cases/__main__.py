"""Run recorded outcomes of Koordinator's strategies: `python -m tests.strategy_cases FILE`."""

from __future__ import annotations

import logging
import sys

from tests.strategy_cases import run_case
from tests.support import case_program

if __name__ == "__main__":
    logging.disable()  # each case makes an agent, which logs what it does
    keys = ("id", "strategy", "stage", "input", "expect")
    sys.exit(case_program.main("tests.strategy_cases", __doc__ or "", "Koordinator", run_case, keys))
