"""Every row of the page on reliability names a test that there is."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)


@cache
def functions(path: str) -> frozenset[str]:
    file = ROOT / "tests" / path
    tree = ast.parse(file.read_text(encoding="utf-8") if file.exists() else "")
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_the_test_of_a_fault_is_there() -> None:
    assert len(NAMED) > 100
    assert [f"tests/{path} has no {test}" for path, test in NAMED if test not in functions(path)] == []
