"""Every `make` target that a page names exists, and the table of runs is correct."""

from __future__ import annotations

import re
from pathlib import Path

from tools import check

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob(".github/*.md"),
        *ROOT.glob("docs/**/*.md"),
        ROOT / "tests/README.md",
        *ROOT.glob("tests/*/README.md"),
    ]
)


def test_make_targets_on_pages_exist() -> None:
    targets = set(re.findall(r"(?m)^([a-z0-9-]+):", (ROOT / "Makefile").read_text()))
    targets |= {f"test-{row.group}" for row in check.stages()}
    named = {
        (page.relative_to(ROOT).as_posix(), target)
        for page in PAGES
        for target in re.findall(
            r"(?:`|^    |^\$ )make ([a-z][a-z0-9-]*)", page.read_text(encoding="utf-8"), re.MULTILINE
        )
    }
    assert len(named) > 10
    assert [(page, target) for page, target in sorted(named) if target not in targets] == []


def test_every_group_of_stages_is_in_the_table() -> None:
    text = (ROOT / "tests/README.md").read_text()
    table = {
        (group, since.strip("`")) for group, since in re.findall(r"(?m)^\| `(\w+)` \|[^|]*\| ([^|]+) \|[^|]*\|$", text)
    }
    # Which Pythons there are is the machine's matter.
    assert {row for row in table if row[0] != "pythons"} == {
        (row.group, check.RUNS[row.since]) for row in check.stages() if row.group != "pythons"
    }
