"""The page on reliability: every row names a test that there is, and the tables of attacks have all attacks."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.torture import runtimes, table
from tests.torture.attacks import ROWS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
NAMED = re.findall(r"(?m)^\| (.+?) \| .+? \| `([\w/]+\.py)::(\w+)` \|$", PAGE)


@cache
def functions(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize(("fault", "path", "test"), NAMED, ids=[row[0] for row in NAMED])
def test_the_test_of_a_fault_is_there(fault: str, path: str, test: str) -> None:
    assert test in functions(path), f"{fault}: tests/{path} has no {test}"


@pytest.mark.parametrize(
    "side",
    ["Faults of a plugin, seen by the runtime", "Faults of a runtime, seen by the plugin", "Faults on the engine"],
)
def test_every_fault_of_each_side_has_a_test(side: str) -> None:
    section = PAGE.partition(f"## {side}\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ") and not line.startswith("| the ")]
    assert len(rows) >= 20
    assert [row for row in rows if "::test_" not in row] == []


def test_no_fault_is_there_twice() -> None:
    assert len(NAMED) == len(set(NAMED)) >= 45


def test_the_tables_have_every_attack_in_order() -> None:
    assert table.names_in(PAGE, table.NODES) == [row.name for row in ROWS]
    assert table.names_in(PAGE, table.PLUGINS) == [row.name for row in runtimes.ROWS]
