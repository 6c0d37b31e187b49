"""The rows of the pages of deviations: the names of the differences from one system."""

from __future__ import annotations

from pathlib import Path

__all__ = ["PAGES", "deviation_rows"]

#: The pages of deviations: from NRI, of the bundled plugins, and of the node agent.
PAGES = tuple(sorted((Path(__file__).parents[2] / "docs").glob("deviations*.md")))


def deviation_rows(system: str = "") -> list[str]:
    """Return the first cell of each row below the heading of a system; "" is NRI, and returns the names of rules."""
    if not system:
        text = next(page for page in PAGES if page.stem == "deviations").read_text()
    else:
        text = "\n".join(page.read_text() for page in PAGES).partition(f"\n## {system}\n")[2].partition("\n## ")[0]
    return [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")]
