"""The engine under attack next to 20 normal pods; `python -m tests.torture` writes the table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.needs import need, need_root, need_tool
from tests.torture import table
from tests.torture.engine_attacks import ATTACKS, ROWS
from tests.torture.engine_course import EngineSetting


@pytest.fixture(scope="module")
def setting() -> Iterator[EngineSetting]:
    need_root()
    for tool in ("runc", "conmon", "skopeo", "umoci"):
        need_tool(tool)
    need(Path("/usr/lib/cni/bridge").exists(), "the CNI plugins (containernetworking-plugins)")
    with EngineSetting() as setting:
        yield setting


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [row.name for row in ROWS if row.short])
def test_the_engine_withstands_the_attack(setting: EngineSetting, name: str) -> None:
    outcome = setting.run(ATTACKS[name])
    print(table.engine_line(outcome))
    assert not outcome.wrong, "\n".join(outcome.wrong)
