"""Tables of the deviations from the docstrings of the attributes of `Rules`, `Choices` and `Quirks`.

A docstring is a sentence, then the fields `:Reference:` (what the reference does), `:Here:` (details, if any) and
`:Why:`.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADINGS = {
    "rules": ("rule", "here, by default", "reference"),
    "choices": ("what", "here", "nri-plugins"),
    "quirks": ("what", "here", "Koordinator"),
}
FILES = {
    "rules": "src/nri/rules.py",
    "choices": "src/nri/placement/choices.py",
    "quirks": "src/nri/agent/koordinator/quirks.py",
}
_GROUP = re.compile(r"^    # --- (.*)$", re.MULTILINE)
_FIELD = re.compile(r"^:(Reference|Here|Why): ", re.MULTILINE)


def deviations(source: str) -> Callable[[], Iterator[tuple[str, ...]]]:
    """The rows of a file in `FILES`, or of some groups of it (`rules: limits, plugins`), below a row of headings."""
    name, _, groups = source.partition(": ")

    def rows() -> Iterator[tuple[str, ...]]:
        yield HEADINGS[name]
        for group, attribute, docstring in attributes(ROOT / FILES[name]):
            if not groups or group in groups.split(", "):
                yield (f"`{attribute}`", *cells(attribute, docstring))

    return rows


def attributes(path: Path) -> Iterator[tuple[str, str, str]]:
    """Each attribute of the class in a file: the title of its group, its name and its docstring."""
    text = path.read_text(encoding="utf-8")
    titles = [(text.count("\n", 0, match.start()) + 1, match[1]) for match in _GROUP.finditer(text)]
    (body,) = (node.body for node in ast.parse(text).body if isinstance(node, ast.ClassDef))
    for node, following in pairwise(body):
        if not isinstance(node, ast.AnnAssign) or not isinstance(following, ast.Expr):
            continue
        assert isinstance(node.target, ast.Name)
        assert isinstance(following.value, ast.Constant)
        group = next((title for line, title in reversed(titles) if line < node.lineno), "")
        yield group, node.target.id, inspect.cleandoc(str(following.value.value))


def cells(attribute: str, docstring: str) -> tuple[str, str]:
    """What is done here, and what the reference does. LookupError if the docstring lacks this or the reason."""
    summary, *parts = _FIELD.split(docstring)
    texts = {name: " ".join(text.split()) for name, text in zip(parts[::2], parts[1::2], strict=True)}
    if not {"Reference", "Why"} <= texts.keys():
        raise LookupError(f"{attribute}: the docstring needs the fields :Reference: and :Why:")
    return texts.get("Here", " ".join(summary.split())), texts["Reference"]
