"""The page about the code has every room, and a reason for each module that is not part of its only reader.

That each name on it leads to something is held by tests/docs/test_names.py.
"""

import re
from fnmatch import fnmatch
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
TEXT = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
NAME = re.compile(r"`(nri(?:\.[\w*]+)+)`")


def section(title: str) -> str:
    return TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def first_cells(title: str) -> list[str]:
    """The names in the first column of a section's table."""
    rows = [line for line in section(title).splitlines() if line.startswith("| `")]
    return [name for row in rows for name in NAME.findall(row.split("|")[1])]


def is_folder(module: str) -> bool:
    return SOURCE.joinpath(*module.split(".")).is_dir()


def test_every_room_has_its_row() -> None:
    modules = {f"nri.{path.stem}" for path in (SOURCE / "nri").iterdir() if path.suffix == ".py" or path.is_dir()}
    rows = first_cells("The rooms")
    assert sorted(modules - {"nri.__init__", "nri.__main__", "nri.__pycache__"} - set(rows)) == []
    assert len(rows) == len(set(rows))


def test_a_module_that_one_neighbour_reads_is_part_of_it_or_has_its_reason() -> None:
    """The face of a room reads what it exports for all others, so it is no neighbour."""
    graph = grimp.build_graph("nri", cache_dir=None, exclude_type_checking_imports=False)
    excused = first_cells("Modules with one reader")
    alone = {
        module: reader
        for module in graph.modules
        if not is_folder(module) and ".pb" not in module
        for reader in graph.find_modules_that_directly_import(module)
        if len(graph.find_modules_that_directly_import(module)) == 1 and not is_folder(reader)
    }
    bare = {module: reader for module, reader in alone.items() if not any(fnmatch(module, row) for row in excused)}
    assert not bare, f"merge each into its reader, or write its reason in docs/architecture.md: {bare}"
