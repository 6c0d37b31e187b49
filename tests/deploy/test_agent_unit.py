"""The agent's systemd unit: valid, well restricted, and with a reason for every right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.deploy.rendered import DEPLOY
from tests.support.commands import run
from tests.support.needs import need_tool
from tools.deployment.agent.table import read
from tools.deployment.agent.unit import VENV
from tools.deployment.unit import CLOSED

UNIT = DEPLOY / "systemd/nri-agent.service"


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit with an existing program: systemd checks it."""
    path = tmp_path / UNIT.name
    path.write_text(UNIT.read_text().replace(f"{VENV}/bin/python", "/bin/true"))
    return path


def test_systemd_analyze_verifies_the_unit(unit: Path) -> None:
    need_tool("systemd-analyze")
    assert run(["systemd-analyze", "verify", "--man=no", unit]) == ""


def test_systemd_analyze_rates_the_unit_as_safe(unit: Path) -> None:
    need_tool("systemd-analyze")
    output = run(["systemd-analyze", "security", "--offline=true", "--no-pager", unit])
    level = re.search(r"Overall exposure level for .*?: ([\d.]+)", output)
    assert level, output
    assert float(level[1]) <= 3.0, output


def test_every_line_that_grants_a_right_has_a_comment_with_the_reason() -> None:
    lines = UNIT.read_text().splitlines()
    for row in read():
        for line in row.unit:
            if row.choice in ("always", "mode"):
                assert lines[lines.index(f"{line.key}={line.value}") - 1] == f"# {line.why}"
            else:
                assert f"#   {line.key}={line.value}" in lines, "what a hook needs besides is a comment"
        if row.capabilities:
            assert f"#   CapabilityBoundingSet={' '.join(f'CAP_{name}' for name in row.capabilities)}" in lines


def test_all_other_rights_are_denied_as_for_plugins() -> None:
    lines = UNIT.read_text().splitlines()
    opened = {line.key for row in read() if row.choice in ("always", "mode") for line in row.unit}
    assert {key for key, value in CLOSED.items() if f"{key}={value}" not in lines} <= opened
    assert "CapabilityBoundingSet=" in lines
