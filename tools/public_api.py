"""Print all public names of the package with their signatures.

    python tools/public_api.py > tests/data/public_api.txt

A test compares the file with the code. A changed line is a change for users: docs/concepts/stability.md has the rules.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STABILITY = ROOT / "docs/concepts/stability.md"
#: The messages have the names and fields of the protocol; proto/ describes them.
PROTOCOL = "nri.api.messages"


def public_modules() -> list[str]:
    """The modules in the table of docs/concepts/stability.md, without the protocol's messages."""
    rows = re.findall(r"^\| (`nri.*?) \|", STABILITY.read_text(encoding="utf-8"), re.MULTILINE)
    return [name for name in re.findall(r"`(nri[\w.]*)`", "".join(rows)) if name != PROTOCOL]


def signature(value: object) -> str:
    """The parameters of a callable without their annotations, or "" for other objects."""
    try:
        parameters = inspect.signature(value).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""
    empty = inspect.Parameter.empty
    names = [
        parameter.replace(annotation=empty, default=empty if parameter.default is empty else ...)
        for parameter in parameters
    ]
    return str(inspect.Signature(names)).replace("Ellipsis", "...")


def member_lines(name: str, owner: type) -> Iterator[str]:
    """A line for each public method and property that a class defines itself."""
    for member, value in sorted(vars(owner).items()):
        if member.startswith("_"):
            continue
        if isinstance(value, property):
            yield f"{name}.{member}"
        elif inspect.isfunction(value) or isinstance(value, classmethod | staticmethod):
            yield f"{name}.{member}{signature(getattr(owner, member))}"


def lines() -> Iterator[str]:
    """All public names, sorted within their module."""
    for module_name in public_modules():
        module = importlib.import_module(module_name)
        for entry in sorted(module.__all__):
            name, value = f"{module_name}.{entry}", getattr(module, entry)
            yield name + (signature(value) if callable(value) else "")
            if isinstance(value, type) and value.__module__.startswith("nri."):
                yield from member_lines(name, value)


if __name__ == "__main__":
    print("\n".join(lines()))
