"""Paths of keys and locations (source and line) in configuration, as error messages show them."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.config.source import Source

#: Keys and list positions from the root of a tree to a value.
Path = tuple["str | int", ...]


def location(source: Source, line: int | None) -> str:
    """The source's name with a line, for errors."""
    return f"{source.name}:{line}" if line else source.name


def path_text(path: Path) -> str:
    """A path in the form ``pools[2].cpus``. Keys that contain dots are quoted."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            plain = part if re.fullmatch(r"[\w-]+", part) else f'"{part}"'
            text += f".{plain}" if text else plain
    return text


def first_line(error: Exception) -> str:
    """Return the first line of a parser's error about input that it cannot parse, for example too many digits."""
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    return uncapital(text.partition(";")[0])


def uncapital(text: str) -> str:
    """A parser's message as the middle of a sentence."""
    return text[:1].lower() + text[1:]
