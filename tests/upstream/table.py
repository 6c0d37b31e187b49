"""What is expected of each leaf of the reference's tests: `leaves.yaml` as values. Next: `test_upstream.py`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

TABLE = Path(__file__).resolve().parent / "leaves.yaml"


class Row(NamedTuple):
    """What is expected of one leaf.

    Attributes:
        leaf: its name, as Go prints it.
        kind: "passes", "deviation" or "go-only".
        rules: the attributes of `Rules` that make it fail in default mode; () if the kind is another.
    """

    leaf: str
    kind: str
    rules: tuple[str, ...] = ()


def rows() -> list[Row]:
    """All rows, in the table's order."""
    return [_row(leaf, text) for leaf, text in _flat(_table()["leaves"], "")]


def files() -> dict[str, str]:
    """The kind of each test file of the package: "black-box" or "go-only"."""
    return {name: text.partition(":")[0] for name, text in _table()["files"].items()}


def _table() -> Any:
    return yaml.safe_load(TABLE.read_text())


def _row(leaf: str, text: str) -> Row:
    kind, _, remainder = text.partition(": ")
    assert (kind in ("deviation", "go-only")) == bool(remainder), f"{TABLE.name}: {leaf}: {text!r}"
    assert kind in ("passes", "deviation", "go-only"), f"{TABLE.name}: {leaf}: {text!r}"
    return Row(leaf, kind, tuple(remainder.split(", ")) if kind == "deviation" else ())


def _flat(tree: dict[str, Any], above: str) -> Iterator[tuple[str, str]]:
    for name, value in tree.items():
        leaf = f"{above}/{name}" if above else name
        if isinstance(value, dict):
            yield from _flat(value, leaf)
        else:
            yield leaf, value
