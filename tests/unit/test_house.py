"""The shape of the tree: rooms of a size that one can survey, no circle of imports, and words that stand alone."""

from __future__ import annotations

import ast
import graphlib
import re
from pathlib import Path

import grimp
import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "nri"
MODULES = [path for path in SOURCE.rglob("*.py") if path.parent.name != "pb"]
#: Longer than others may be, because they are lists, and are looked things up in rather than read.
LISTS = {"errors.py": "the tree of exceptions"}
MOST_LINES = 300
MOST_MODULES = 15
#: A first line that begins so is half of a sentence, whose other half is the code.
HALF = re.compile(r"(What|How|Who|Which|Where|When|Why|That|There)\b")
PEOPLE = re.compile(r"\b(somebody|nobody|whoever|anybody|everybody)\b", re.IGNORECASE)


def test_no_module_is_longer_than_one_reads_in_one_go() -> None:
    long = {
        name: lines
        for path in MODULES
        if (lines := len(path.read_text().splitlines())) > MOST_LINES
        and (name := path.relative_to(SOURCE).as_posix()) not in LISTS
    }
    assert not long, f"more than {MOST_LINES} lines: {long}"


def test_no_folder_holds_more_modules_than_one_surveys() -> None:
    folders: dict[str, int] = {}
    for path in MODULES:
        if path.name != "__init__.py":
            name = path.parent.relative_to(SOURCE).as_posix()
            folders[name] = folders.get(name, 0) + 1
    full = {name: count for name, count in folders.items() if count > MOST_MODULES}
    assert not full, f"more than {MOST_MODULES} modules: {full}"


@pytest.mark.parametrize("package", ["nri", "bench", "tools"])
def test_no_import_comes_back_to_where_it_started_also_for_type_checkers(package: str) -> None:
    graph = grimp.build_graph(package, cache_dir=None, exclude_type_checking_imports=False)
    order = graphlib.TopologicalSorter({name: graph.find_modules_directly_imported_by(name) for name in graph.modules})
    try:
        order.prepare()
    except graphlib.CycleError as error:
        raise AssertionError(f"a circle: {' <- '.join(error.args[1])}") from None


def docstrings() -> list[tuple[str, str]]:
    """All docstrings of the package, each with its place."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        (f"{path.relative_to(SOURCE).as_posix()}:{getattr(node, 'lineno', 1)}", text)
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, kinds) and (text := ast.get_docstring(node))
    ]


def test_the_first_line_of_a_docstring_stands_alone() -> None:
    half = [f"{place}: {text.splitlines()[0]}" for place, text in docstrings() if HALF.match(text)]
    assert not half, "say what it is, or what it does:\n" + "\n".join(half)


def test_docstrings_say_who_does_it() -> None:
    vague = [f"{place}: {found[0]}" for place, text in docstrings() if (found := PEOPLE.search(text))]
    assert not vague, "name the plugin, process, user or caller:\n" + "\n".join(vague)


def test_a_reading_order_has_every_module_of_its_room() -> None:
    orders = 0
    for path in MODULES:
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
        if path.name == "__init__.py" and "Reading order: " in text:
            orders += 1
            room = path.parent
            inside = [*room.glob("*.py"), *(face.parent for face in room.glob("*/__init__.py"))]
            missing = [each.stem for each in inside if each != path and not re.search(rf"[`.]{each.stem}`", text)]
            assert not missing, f"{room.relative_to(SOURCE)}: {missing}"
    assert orders > 10
