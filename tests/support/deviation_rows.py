"""The rows of the pages of deviations: the names of the differences from one system."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["PAGES", "deviation_rows"]

#: The pages of deviations: from NRI, of the bundled plugins, and of the node agent.
PAGES = tuple(sorted((Path(__file__).parents[2] / "docs").glob("deviations*.md")))


def deviation_rows(system: str = "") -> list[str]:
    """Return the names of the differences below the heading of a system; "" is NRI, and returns the names of rules.

    A name is the first cell of a row, or bold in a list, whose items are differences of one kind.
    """
    if not system:
        text = next(page for page in PAGES if page.stem == "deviations").read_text()
    else:
        text = "\n".join(page.read_text() for page in PAGES).partition(f"\n## {system}\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")]
    return [*rows, *(" ".join(name.split()) for name in re.findall(r"\*\*(.+?)\*\*", text, re.DOTALL))]
