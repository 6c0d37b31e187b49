"""The bundled plugins as Markdown: a table of all, made from their classes, and the README of each one.

`docs/conf.py` puts it into the page `reference/plugins`; tests/docs/test_plugins_reference.py tries it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from nri.plugins.registry import describe, registered

DOCS = Path(__file__).resolve().parent
#: Where links of the page start from.
PAGE = DOCS / "reference"


def reference() -> str:
    """A table of all bundled plugins, then what each one says of itself."""
    found = [describe(entry) for entry in registered() if entry.value.startswith("nri.plugins.")]
    head = ["| plugin | what it does | annotations of pods | flags of its own |", "|---|---|---|---|"]
    return "\n".join([*head, *map(_row, found), "", *map(_section, found)])


def _row(plugin: dict[str, Any]) -> str:
    name = plugin["name"]
    annotations = "<br>".join(f"`{key}`" for key in plugin["annotations"])
    flags = "<br>".join(f"`{flag}`" for flag in plugin["flags"])
    cells = (f"[{name}](#{name})", plugin["summary"], annotations, flags)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _section(plugin: dict[str, Any]) -> str:
    """The README with its headings one level down; without one, what the class says."""
    if not plugin["readme"]:
        return f"## {plugin['name']}\n\n{plugin['description']}\n"
    readme = Path(plugin["readme"]).resolve()
    parts = re.split(r"(^```.*?^```$)", readme.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else _moved(part, readme.parent) for part in parts) + "\n"


def _moved(text: str, folder: Path) -> str:
    """Text of a README for this page: headings one level down, links from here."""

    def link(match: re.Match[str]) -> str:
        target, hash_, anchor = match[1].partition("#")
        if not target or ":" in target:
            return match[0]
        return f"]({os.path.relpath(folder / target, PAGE)}{hash_}{anchor})"

    return re.sub(r"\]\(([^)\s]+)\)", link, re.sub(r"^#", "##", text, flags=re.MULTILINE))
