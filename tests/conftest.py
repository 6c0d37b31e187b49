"""What all tests share: markers by folder, Hypothesis profiles, and the rule that nothing skips unnoticed in CI."""

import _thread
import os
import signal
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.support import needs

TESTS = Path(__file__).parent

# The folder below tests/ says what kind a test is, so that no file repeats it.
MARKERS = {
    "unit": "quick",
    "property": "quick",
    "conformance": "quick",
    "wire": "quick",
    "support": "quick",
    "docs": "quick",
    "checkers": "slow",
    "packaging": "slow",
    "deploy": "real",
    "peers": "interop",
    "differential": "interop",
    "interop": "interop",
    "upstream": "interop",
    "faults": "faults",
    "torture": "faults",
    "agent": "real",
    "engine": "real",
    "proxy": "real",
    "fuzz": "slow",
    "real": "real",
    "kubernetes": "real",
    "guest": "real",
}

# A shell that starts us in the background has us ignore Ctrl-C, and so would programs that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Threads that modules start without `threading` are measured like the others, if anything is (tools/covered.py).
if sys.gettrace() is not None and (trace := threading.gettrace()) is not None:
    _start = _thread.start_new_thread

    def _start_measured(function: Any, *arguments: Any) -> int:
        def run(*given: Any, **named: Any) -> None:
            sys.settrace(trace)
            function(*given, **named)

        return _start(run, *arguments)

    _thread.start_new_thread = _start_measured

# No deadlines: a slow machine is not a wrong answer. CI draws the same examples each time; `long` draws new ones.
patient: dict[str, Any] = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("dev", max_examples=60, **patient)
hypothesis.settings.register_profile("ci", max_examples=200, derandomize=True, print_blob=True, **patient)
hypothesis.settings.register_profile("long", max_examples=20_000, print_blob=True, **patient)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if needs.no_skip() else "dev"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test by its folder."""
    for item in items:
        if item.path.is_relative_to(TESTS):
            kind = MARKERS.get(item.path.relative_to(TESTS).parts[0])
            if kind:
                item.add_marker(kind)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where nothing may be skipped, turn a plain skip into a failure that says why it was to be skipped."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and needs.no_skip():
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if needs.MACHINE_MARK not in reason:
            report.outcome = "failed"
            report.longrepr = f"{item.nodeid}: {reason} (nothing may be skipped here: CI or NRI_NO_SKIP is set)"
    return report
