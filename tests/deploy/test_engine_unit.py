"""The engine's systemd unit, as `nri engine unit` prints it, is valid."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.commands import run
from tests.support.needs import need_tool


def test_systemd_analyze_verifies_the_unit_of_the_engine(tmp_path: Path) -> None:
    need_tool("systemd-analyze")
    unit = tmp_path / "nri-engine.service"
    unit.write_text(run([sys.executable, "-m", "nri", "engine", "unit"]))
    assert run(["systemd-analyze", "verify", "--man=no", unit]) == ""
