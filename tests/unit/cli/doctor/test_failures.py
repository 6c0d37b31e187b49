"""Plugins that failed are told with their own words, wherever their notes lie."""

from __future__ import annotations

import json
import time

from nri.cli.doctor import failures
from nri.cli.doctor.examination import examine
from nri.cli.doctor.findings import Finding
from nri.cli.settings import Settings
from tests.unit.cli.conftest import lines

NOTE = "/var/run/nri/failed-plugins/10-pin"


def note(error: str, ago_s: float = 0.0) -> str:
    return json.dumps({"error": error, "time": time.time() - ago_s, "pid": 7})


def test_a_plugin_that_failed_is_a_problem_with_its_own_words(put) -> None:
    found: list[Finding] = []
    root = put({NOTE: note("configure failed: KeyError: 'zone'", 130)})
    failures.check(root, ["/var/run/nri/nri.sock", "/var/run/nri/nri.sock"], found)
    (finding,) = found
    assert (finding.level, finding.where) == ("problem", NOTE)
    assert finding.what == "plugin 10-pin failed 2 min ago (process 7): configure failed: KeyError: 'zone'"
    assert f"rm {NOTE}" in finding.next


def test_the_doctor_looks_beside_each_socket_and_at_the_default_place(put) -> None:
    config = 'version = 3\n[plugins."io.containerd.nri.v1.nri"]\nsocket_path = "/run/k3s/nri.sock"\n'
    files = {"/etc/containerd/config.toml": config, NOTE: note("one"), "/run/k3s/failed-plugins/20-far": note("two")}
    found = lines(examine(Settings(), put(files)))
    told = [line for line in found if "failed" in line]
    assert len(told) == 2 and any(": one" in line for line in told) and any(": two" in line for line in told), told


def test_times_are_told_in_their_largest_unit() -> None:
    assert [failures._ago(s) for s in (-3, 5, 90, 7300, 200000)] == [
        "0 s ago", "5 s ago", "1 min ago", "2 h ago", "2 d ago",
    ]  # fmt: skip
