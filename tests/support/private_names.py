"""Where tests reach into private names of the product.

That is `obj._name`, `import _name`, `setattr(obj, "_name", ...)` and `setattr("nri.module._name", ...)`. A test that
does breaks when an inside is written anew, though the behaviour is the same; `tests/unit/test_house.py` allows none.
`python -m tests.support.private_names [WORD ...]` prints each place.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
SOURCE = TESTS.parent / "src" / "nri"
#: Names with an underscore that are public: of named tuples and of the standard library.
PUBLIC = {"_replace", "_asdict", "_fields", "_make", "_exit", "_getframe"}


@functools.cache
def _allowed_names() -> set[str]:
    """The private names of the product."""
    matches = (re.findall(r"\b_[a-zA-Z]\w*", path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py"))
    return set().union(*matches) - PUBLIC


def _private(name: object) -> bool:
    return name in _allowed_names()


def _class_names(tree: ast.Module) -> set[str]:
    """The private names that a test file makes itself."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_self(node.value):
            names.add(node.attr)
    return names


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def accesses(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each access in a test file."""
    tree = ast.parse(source)
    class_names = _class_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _private(node.attr) and node.attr not in class_names:
            if not _is_self(node.value):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Call) and len(node.args) > 1 and ast.unparse(node.func).endswith("attr"):
            first, second = (name.value if isinstance(name, ast.Constant) else None for name in node.args[:2])
            path, _, last = str(first).rpartition(".")
            if _private(last if path.startswith("nri.") else second):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("nri"):
            for name in node.names:
                if _private(name.name):
                    yield node.lineno, f"from {node.module} import {name.name}"


def rooms() -> Counter[str]:
    """The number of accesses by room: the folder below `tests/unit`, or another kind of tests."""
    counts: Counter[str] = Counter()
    for path in TESTS.rglob("*.py"):
        results = sum(1 for _ in accesses(path.read_text(encoding="utf-8")))
        if results:
            parts = path.relative_to(TESTS).parts
            counts["/".join(parts[:2]).removesuffix(".py") if parts[0] == "unit" else parts[0]] += results
    return counts


if __name__ == "__main__":
    for file in sorted(TESTS.rglob("*.py")):
        for line, text in accesses(file.read_text(encoding="utf-8")):
            if not sys.argv[1:] or any(word in str(file) for word in sys.argv[1:]):
                print(f"{file.relative_to(TESTS.parent)}:{line}: {text}")
    if not sys.argv[1:]:
        print(*(f'"{room}": {count},' for room, count in sorted(rooms().items())), sum(rooms().values()), sep="\n")
