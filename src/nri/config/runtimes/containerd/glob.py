"""Go's `filepath.Glob`, which finds containerd's imported files: `[^a]` negates, `[!a]` does not, `**` is `*`."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nri.config.runtimes.file_tree import FileTree


class BadPattern(ValueError):
    """A pattern that Go refuses."""


def clean(path: str) -> str:
    """Shorten a path like Go's `filepath.Clean`. An empty path becomes "."."""
    path = posixpath.normpath(path)
    return path[1:] if path.startswith("//") else path  # POSIX keeps two leading slashes, Go does not


def glob(tree: FileTree, pattern: str) -> list[str]:
    """List the paths that match, folder by folder, each folder's names sorted by bytes. Raises BadPattern."""
    _expression(pattern)
    return _glob(tree, pattern)


def _glob(tree: FileTree, pattern: str) -> list[str]:
    if not _has_wildcard(pattern):
        return [pattern] if _has_name(tree, pattern) else []
    folder, name = posixpath.split(pattern)
    folders = _glob(tree, folder) if _has_wildcard(folder) else [folder]
    return [path for folder in folders for path in _matches(tree, folder, name)]


def _has_wildcard(path: str) -> bool:
    return any(letter in path for letter in "*?[\\")


def _has_name(tree: FileTree, path: str) -> bool:
    """Whether a folder has the name, even if it is a broken link."""
    folder, name = posixpath.split(path)
    try:
        return name in tree.names(folder)
    except OSError:
        return False


def _matches(tree: FileTree, folder: str, pattern: str) -> list[str]:
    expression = _expression(pattern)
    try:
        names = tree.names(folder)
    except OSError:  # Go ignores folders that it cannot read
        return []
    names = sorted(
        (name for name in names if expression.fullmatch(name)), key=lambda name: name.encode(errors="replace")
    )
    return [posixpath.join(folder, name) for name in names]


def _expression(pattern: str) -> re.Pattern[str]:
    """Translate a pattern. Raises BadPattern."""
    parts, at = [], 0
    while at < len(pattern):
        letter = pattern[at]
        at += 1
        if letter == "*":
            parts.append("[^/]*")
        elif letter == "?":
            parts.append("[^/]")
        elif letter == "[":
            text, at = _class(pattern, at)
            parts.append(text)
        elif letter == "\\":
            if at == len(pattern):
                raise BadPattern(pattern)
            parts.append(re.escape(pattern[at]))
            at += 1
        else:
            parts.append(re.escape(letter))
    return re.compile("".join(parts), re.DOTALL)


def _class(pattern: str, at: int) -> tuple[str, int]:
    """Translate a character class that begins after its bracket. Returns it with the index after its end."""
    negated = pattern[at : at + 1] == "^"
    at += negated
    ranges: list[str] = []
    while True:
        if pattern[at : at + 1] == "]" and ranges:
            break
        low, at = _class_letter(pattern, at)
        high = low
        if pattern[at : at + 1] == "-":
            high, at = _class_letter(pattern, at + 1)
        if low <= high:
            ranges.append(f"{re.escape(low)}-{re.escape(high)}")
        else:
            ranges.append("")  # an empty range matches nothing
    text = "".join(ranges)
    if not text:
        return ("." if negated else "(?!)"), at + 1
    return f"[{'^' if negated else ''}{text}]", at + 1


def _class_letter(pattern: str, at: int) -> tuple[str, int]:
    """Read a character of a character class. Returns it with the index after it."""
    if at >= len(pattern) or pattern[at] in "-]":
        raise BadPattern(pattern)
    if pattern[at] == "\\":
        at += 1
        if at >= len(pattern):
            raise BadPattern(pattern)
    if at + 1 >= len(pattern):  # the class is not closed
        raise BadPattern(pattern)
    return pattern[at], at + 1
