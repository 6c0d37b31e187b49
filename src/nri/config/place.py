"""Places in configuration: the path of a key in a tree, and the line of a text, as errors show them."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.config.source import Source

#: Keys and list positions from the root of a tree to a value.
Path = tuple["str | int", ...]


def at(source: Source, line: int | None) -> str:
    """The source's name with a line, as errors show it."""
    return f"{source.name}:{line}" if line else source.name


def show(path: Path) -> str:
    """A path as people write it: ``pools[2].cpus``; keys that hold dots are quoted."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            plain = part if re.fullmatch(r"[\w-]+", part) else f'"{part}"'
            text += f".{plain}" if text else plain
    return text


def first_line(error: Exception) -> str:
    """Return the first line of a parser's complaint about input that it cannot digest, as too many digits."""
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    return uncapital(text.partition(";")[0])


def uncapital(text: str) -> str:
    """A parser's message as the middle of a sentence."""
    return text[:1].lower() + text[1:]
