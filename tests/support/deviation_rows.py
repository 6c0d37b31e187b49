"""The rows of docs/deviations.md: the names of the differences from one system."""

from __future__ import annotations

from pathlib import Path

__all__ = ["deviation_rows"]

_PAGE = Path(__file__).parents[2] / "docs" / "deviations.md"


def deviation_rows(system: str = "") -> list[str]:
    """Return the first cell of each row below the heading of a system; "" is the reference, and the rules by name."""
    rules, _, other_rows = _PAGE.read_text().partition("\n## Other systems\n")
    part = other_rows.partition(f"\n### {system}\n")[2].partition("\n#")[0] if system else rules
    return [line.split("|")[1].strip() for line in part.splitlines() if line.startswith("| ")]
