"""The runtimes' settings, judged one by one and against each other."""

from __future__ import annotations

import pytest

from nri.cli.doctor import runtimes
from nri.cli.doctor.findings import Finding
from nri.config.runtimes.reading import RuntimeNri
from tests.unit.cli.conftest import lines


def judge(*found: RuntimeNri) -> list[str]:
    findings: list[Finding] = []
    runtimes.check(found, findings)
    return lines(findings)


def test_two_runtimes_on_one_socket_are_a_contradiction() -> None:
    assert any(
        "containerd and cri-o both listen on /var/run/nri/nri.sock" in line
        for line in judge(RuntimeNri("containerd", enabled=True), RuntimeNri("cri-o", enabled=True))
    )


def test_a_runtime_whose_nri_is_off_takes_no_socket() -> None:
    found = judge(RuntimeNri("containerd", enabled=True), RuntimeNri("isulad", enabled=False))
    assert not any("both listen" in line for line in found)
    assert "problem: /etc/isulad/daemon.json: nri-support: NRI is off in isulad by default" in found


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"connections": False}, "connections are disabled: containerd makes no socket"),
        ({"socket_path": "run/nri.sock"}, "is not absolute"),
        ({"socket_path": "/" + "x" * 107}, "has 108 bytes, the kernel takes 107"),
        ({"request_timeout_s": 0.1}, "the request timeout is 100ms"),
        ({"request_timeout_s": 300.0}, "the request timeout is 5m0s"),
        ({"registration_timeout_s": 1.0}, "the registration timeout (1s) is shorter than the request timeout (2s)"),
        ({"request_timeout_s": -1.0}, "a timeout below zero"),
    ],
)
def test_settings_that_cannot_work_well_are_found(settings: dict[str, object], problem: str) -> None:
    assert any(problem in line for line in judge(RuntimeNri("containerd", enabled=True, **settings)))  # type: ignore[arg-type]


def test_no_runtime_at_all_is_a_problem() -> None:
    assert judge() == ["problem: /etc: no configuration of a runtime with NRI was found"]
