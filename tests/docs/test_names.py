"""Pages name only what exists: files, modules, targets of make, folders of the package and of the tests."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/*/README.md")])
FOLDERS = "|".join(sorted(path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")))
PATH = re.compile(rf"(?:{FOLDERS})/[\w./*-]*")
MODULE = re.compile(r"nri(?:\.[a-z_]+)+")
TARGET = re.compile(r"make ([a-z-]+)")
#: A variable of an example, not the package.
NO_MODULES = {"nri.plugins", "nri.ready"}


def spans(page: Path) -> list[str]:
    """What stands between backticks in the text of a page, blocks left out."""
    text = re.sub(r"(?ms)^```.*?^```$", "", page.read_text(encoding="utf-8"))
    return re.findall(r"`([^`\n]+)`", text)


def words(page: Path) -> list[str]:
    return [word.rstrip(".,;:)").lstrip("(") for span in spans(page) for word in span.split()]


def is_there(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        return length == len(parts) or hasattr(found, parts[length])
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_only_what_exists(page: Path) -> None:
    beside = page.parent
    paths = {word for word in words(page) if PATH.fullmatch(word)}
    missing = {path for path in paths if not any(ROOT.glob(path.rstrip("/"))) and not any(beside.glob(path))}
    modules = {word for word in words(page) if MODULE.fullmatch(word)} - NO_MODULES
    missing |= {name for name in modules if not is_there(name)}
    targets = set(re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text()))
    missing |= {f"make {name}" for span in spans(page) for name in TARGET.findall(span) if name not in targets}
    assert not missing, f"{page.relative_to(ROOT)} names what is not there: {', '.join(sorted(missing))}"


def test_the_map_of_the_package_has_its_rooms_and_no_others() -> None:
    block = (ROOT / "CONTRIBUTING.md").read_text().partition("```text\n")[2].partition("```")[0]
    named = [name for line in block.splitlines() for name in re.split(r" {2,}", line)[0].split(" | ")]
    package = ROOT / "src" / "nri"
    there = {path.stem for path in package.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert sorted(named) == sorted(there - {"__init__"})


def test_the_kinds_of_tests_are_the_folders_of_the_tests() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    sentence = text.partition("The folder says the kind:")[2].partition(".\n")[0]
    named = re.findall(r"`([a-z]+)`", sentence)
    there = {path.parent.relative_to(ROOT / "tests").parts[0] for path in (ROOT / "tests").glob("*/**/test_*.py")}
    assert sorted(named) == sorted(there - {"support"})
