"""What all tests share: markers by folder, Hypothesis profiles, and the rule that nothing skips unnoticed in CI."""

import functools
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.support import needs
from tools import unsteady

TESTS = Path(__file__).parent

# The folder below tests/ determines the kind of a test, so that no file repeats it.
MARKERS = {
    "unit": "quick",
    "property": "quick",
    "conformance": "quick",
    "wire": "quick",
    "support": "quick",
    "mutants": "quick",
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
    "apiserver": "real",
    "engine": "real",
    "proxy": "real",
    "fuzz": "slow",
    "real": "real",
    "kubernetes": "real",
    "cluster": "real",
    "guest": "real",
}

WITH_REAL_PARTS = ("interop", "faults", "real")

# Settings of this machine, of a shell, a service manager or a cluster that tests run under would change what programs
# say or do. What they are to see of it they are given. (NRI_NO_SKIP and the like are the tests' own.)
OTHERS = (
    *("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "LINES", "PYTHONUNBUFFERED", "NODE_NAME"),
    *("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"),
    *("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "INVOCATION_ID", "JOURNAL_STREAM"),
    *("CONTAINER_RUNTIME_ENDPOINT", "CONTAINERD_ADDRESS", "CONTAINERD_NAMESPACE"),
    *("NRI_SOCKET", "NRI_CRI_SOCKET", "NRI_ADMIN_SOCKET"),
    *(f"NRI_PLUGIN_{name}" for name in ("NAME", "IDX", "SOCKET")),
    *(f"NRI_{program}_{what}" for program in ("AGENT", "ENGINE", "PROXY")
      for what in ("CONFIG", "SOCKET", "LOG_LEVEL", "ROOT")),
)  # fmt: skip
for name in OTHERS:
    os.environ.pop(name, None)
# A proxy is for downloads, and stands before no server of this machine.
for name in ("no_proxy", "NO_PROXY"):
    os.environ[name] = ",".join(filter(None, (os.environ.get(name), "localhost,127.0.0.1,::1")))

# A shell that starts us in the background has us ignore Ctrl-C, and so would programs that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Whether a test has started processes or threads: if it fails, it may run again (tools/unsteady.py), as all of those
# with real parts may.
FROM_ELSEWHERE = (pytest.PytestUnraisableExceptionWarning, pytest.PytestUnhandledThreadExceptionWarning)
STARTERS: tuple[tuple[Any, str], ...] = (
    (threading.Thread, "start"),
    (subprocess.Popen, "__init__"),
    *((os, name) for name in ("fork", "forkpty", "posix_spawn", "posix_spawnp")),
)
_started = False


def _noted(start: Callable[..., Any]) -> Callable[..., Any]:
    """The same, which notes that it was called.

    No audit hook of the interpreter does this: it runs within `sys.settrace` as well, and lets another thread in there,
    whose own is then refused, so that under coverage a thread was gone before its first line.
    """

    @functools.wraps(start)
    def noted(*arguments: Any, **named: Any) -> Any:
        global _started  # noqa: PLW0603 - what is wrapped has no other place
        _started = True
        return start(*arguments, **named)

    return noted


for owner, starter in STARTERS:
    setattr(owner, starter, _noted(getattr(owner, starter)))

# No deadlines: a slow machine is not a wrong answer. CI draws the same examples each time; `long` draws new ones.
patient: dict[str, Any] = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("dev", max_examples=60, **patient)
hypothesis.settings.register_profile("ci", max_examples=200, derandomize=True, print_blob=True, **patient)
hypothesis.settings.register_profile("long", max_examples=20_000, print_blob=True, **patient)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if needs.no_skip() else "dev"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logstart() -> None:
    """Forget what earlier tests have started."""
    global _started  # noqa: PLW0603
    _started = False


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
    """Mark failures that may run again; where skips are forbidden, turn a plain skip into a failure with its reason."""
    report = yield
    # Errors in finalizers and threads are reported in the test that runs at that moment; it is seldom their cause.
    of_another = call.excinfo is not None and isinstance(call.excinfo.value, FROM_ELSEWHERE)
    may_run_again = _started or of_another or any(item.get_closest_marker(kind) for kind in WITH_REAL_PARTS)
    if report.failed and may_run_again:
        for properties in (item.user_properties, report.user_properties):  # the report of the teardown is the last one
            properties.append((unsteady.PROPERTY, item.nodeid))
    if report.skipped and not hasattr(report, "wasxfail") and needs.no_skip():
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if needs.MACHINE_MARK not in reason:
            report.outcome = "failed"
            report.longrepr = f"{item.nodeid}: {reason} (nothing may be skipped here: CI or NRI_NO_SKIP is set)"
    return report
