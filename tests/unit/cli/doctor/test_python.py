"""This installation, judged."""

from __future__ import annotations

import pytest

from nri.cli.doctor import python
from nri.cli.doctor.findings import Finding
from nri.cli.support.versions import versions
from tests.unit.cli.conftest import lines


def test_the_versions_that_a_report_needs_are_told() -> None:
    findings: list[Finding] = []
    python.check(findings)
    assert findings[0].what.startswith(f"nri {versions()['nri']}, NRI API v")


@pytest.mark.parametrize(
    ("back_end", "line"),
    [
        ("python", "problem: protobuf: protobuf runs on its pure-Python back end, about 100 times slower"),
        ("upb", "ok: protobuf: protobuf runs on its upb back end"),
    ],
)
def test_the_back_end_of_protobuf_is_judged(monkeypatch: pytest.MonkeyPatch, back_end: str, line: str) -> None:
    monkeypatch.setattr(python, "versions", lambda: {**versions(), "protobuf_backend": back_end})
    findings: list[Finding] = []
    python.check(findings)
    assert lines(findings)[1] == line
