"""`nri conformance runtime` on a real containerd gives the results of docs/reference/runtimes.md.

The outcome is measured first and then compared with the table, so what stops working and what starts to work both fail.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nri.conformance.fields import CASES
from tests.real.conftest import Runtime
from tests.real.support_matrix import ADJUSTMENTS, EVENTS, FACTS, UPDATES, adjustment_support
from tools.runtimes.daemon import Runtime as Daemon
from tools.runtimes.images import BUSYBOX

Found = dict[str, dict[str, str]]


def tried(daemon: Daemon, cdi_dir: Path, *more: str) -> Found:
    """The command's result for a runtime, by section and row."""
    where = ["--socket-path", str(daemon.nri_socket), "--cri-socket", str(daemon.cri_socket), "--image", BUSYBOX]
    folders = ["--cgroup-root", f"/{daemon.run_dir.name}", "--cdi-dir", str(cdi_dir)]
    argv = [sys.executable, "-m", "nri", "conformance", "runtime", *where, *folders, "-o", "json", *more]
    result = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False)
    assert result.returncode == 0, result.stderr
    sections = json.loads(result.stdout)["sections"]
    return {one["title"]: {row["name"]: row["outcome"] for row in one["rows"]} for one in sections}


@pytest.fixture(scope="module")
def report(runtime: Runtime) -> Found:
    return tried(runtime.daemon, runtime.daemon.run_dir / "cdi", "--pod-network")


def of(report: Found, begin: str) -> dict[str, str]:
    return next(rows for title, rows in report.items() if title.startswith(begin))


def test_every_adjustment_has_the_documented_effect(runtime: Runtime, report: Found) -> None:
    expected = {case.text: adjustment_support(name)[runtime.key] for name, case in CASES.items()}
    differ = {
        name: observed for name, observed in of(report, "Adjustments").items() if not as_said(expected[name], observed)
    }
    assert differ == {}, {name: expected[name] for name in differ}
    assert set(ADJUSTMENTS) == set(CASES)


def as_said(expected: str, observed: str) -> bool:
    """Whether an outcome is the expected one; of a refusal the table has some words."""
    refused, _, words = expected.partition(": ")
    return observed == expected or (observed.startswith(f"{refused}: ") and words in observed)


def test_events_and_updates_have_the_documented_support(runtime: Runtime, report: Found) -> None:
    events = of(report, "Events")
    assert {row.name: row[runtime.key] for row in EVENTS} == {name: events[name] for name in events if name[0] != "i"}
    updates = of(report, "Updates")
    assert {row.name: row[runtime.key] for row in UPDATES.values()} == {
        name.removesuffix(", requested by the plugin"): observed
        for name, observed in updates.items()
        if name.endswith("requested by the plugin")
    }
    assert {observed for name, observed in updates.items() if "returned" in name} == {"applied"}
    assert updates["an eviction"] == "ignored"


def test_configure_and_late_replies_have_the_documented_behaviour(runtime: Runtime, report: Found) -> None:
    around = of(report, "Configure")
    for fact in ("timeouts", "pod-ips", "split-sync"):
        assert around[FACTS[fact].name] == FACTS[fact][runtime.key]
    late = of(report, "Late")
    heeded = late["late, with fail_request and keep_connected: the creation"] == "fails"
    assert heeded == (FACTS["failure-policy"][runtime.key] == "yes")
    assert late["late, without a failure policy: the plugin"] == "is disconnected"
    assert late["late in Synchronize: a creation at the same time"] == "succeeds"
    text = "stays connected, without events" if runtime.key == "1.7" else "is disconnected"
    assert late["late in Synchronize: the plugin"] == text
    assert {around[FACTS[fact].name].partition(":")[0] for fact in ("preinstalled-sync", "preinstalled-broken")} == {
        "not measured"
    }
    assert of(report, "Errors")["CreateContainer"] == "CreateContainer fails"
