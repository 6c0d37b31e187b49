"""The architecture page has a row for every package and for every kind of change.

tests/docs/test_names.py checks that each name on the page exists.
"""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
TEXT = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
NAME = re.compile(r"`(nri(?:\.[\w*]+)+)`")


def first_cells(title: str) -> list[str]:
    """The first column of a section's table."""
    section = TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("| ")]
    return rows[1:]


def test_every_package_has_a_row() -> None:
    modules = {f"nri.{path.stem}" for path in (SOURCE / "nri").iterdir() if path.suffix == ".py" or path.is_dir()}
    rows = [name for cell in first_cells("The packages") for name in NAME.findall(cell)]
    assert sorted(modules - {"nri.__init__", "nri.__main__", "nri.__pycache__"} - set(rows)) == []
    assert len(rows) == len(set(rows))


def test_every_kind_of_change_has_a_row() -> None:
    rows = first_cells("Where a new thing goes")
    kinds = (
        "field of ContainerAdjustment",
        "Koordinator hook or strategy",
        "rubik service",
        "CLI verb",
        "bundled plugin",
        "metric per plugin",
        "CRI call",
        "placement policy",
        "agent profile",
        "trace export format",
        "runtime whose configuration is read",
        "rule about waiting",
    )
    assert [kind for kind in kinds if kind not in rows] == []
