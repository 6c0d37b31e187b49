"""Typed access to the values of a manifest.

A missing value counts as empty. A value of a wrong type raises ConfigError with file, line and key.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from nri.config.key_path import location
from nri.config.source import Source
from nri.config.syntax import Lines, parse_text
from nri.config.yaml_text import repeated_keys
from nri.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nri.config.key_path import Path
    from nri.config.source import Format


def objects(
    source: Source, wrap: Callable[[Any], Any] = lambda root: root, *, lenient: bool = False
) -> Iterator[tuple[Document, dict[str, Any]]]:
    """Yield every object of a file with its document, and the objects of a List one by one, as in kubectl.

    An object without a kind in a list such as PodList has the kind of the list.

    Args:
        source: the file.
        wrap: replaces the tree of each document.
        lenient: whether the last value of a duplicate key is used, as in kubectl. Otherwise it is an error.

    Raises:
        ConfigError: the file cannot be read.
    """
    for part in _parts(source, "lenient-go-yaml" if lenient else "go-yaml"):
        root = wrap(parse_text(part))
        document = Document(part, root)
        waiting = [] if root is None else [(root, "")]
        while waiting:
            tree, kind = waiting.pop()
            if not isinstance(tree, dict):
                raise document.error("expected an object with a kind", "")
            if kind and "kind" not in tree:
                tree["kind"] = kind
            items = document.items(tree, "items") if str(tree.get("kind", "")).endswith("List") else None
            if items is None:
                yield document, tree
            else:
                waiting += [(item, str(tree["kind"]).removesuffix("List")) for item in reversed(items)]


def _parts(source: Source, yaml: Format) -> Iterator[Source]:
    """Yield the documents of a file, without empty ones: YAML between lines of ``---``, and JSON values in a row.

    Each document begins with empty lines in place of the documents before it, so that errors name the correct line.
    """
    start = above = 0
    for mark in re.finditer(r"(?m)^---.*$|\Z", source.text):
        part = source.text[start : mark.start()]
        begin = 0
        for end in (*_ends_of_json(part), len(part)):
            piece = part[begin:end]
            if piece and not piece.isspace():
                format_: Format = "auto" if piece.lstrip().startswith("{") else yaml
                yield Source(source.name, "\n" * (above + part.count("\n", 0, begin)) + piece, format_)
            begin = end
        above += part.count("\n")
        start = mark.end()


def _ends_of_json(text: str) -> Iterator[int]:
    """Yield the end of each JSON object that another object follows."""
    depth = 0
    for token in _JSON_TOKEN.finditer(text) if text.lstrip().startswith("{") else ():
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if not depth and _NEXT_OBJECT.match(text, token.end()):
            yield token.end()


_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}]', re.DOTALL)
_NEXT_OBJECT = re.compile(r"\s*\{")


class Document:
    """A document of a file.

    The argument `where` of methods is the prefix of a key in errors, such as ``spec.``. Text and tree are indexed when
    the first line number is requested.

    Args:
        source: the document's text.
        root: the document's parsed values.
    """

    __slots__ = ("_lines", "_paths", "_root", "_source")

    def __init__(self, source: Source, root: Any) -> None:
        self._source = source
        self._root = root
        self._lines = Lines(source)
        self._paths: dict[int, Path] | None = None

    def repeated_keys(self) -> list[str]:
        """Return a line for each duplicate key. As in kubectl, the last value is used."""
        repeated = repeated_keys(self._source) if self._source.format == "lenient-go-yaml" else []
        return [f"{error.source}: {error.key}: {error.reason}: the last value is used" for error in repeated]

    def _path(self, tree: Any) -> Path | None:
        """The path from the root to a mapping or list, or None if it is not in the document."""
        if tree is None:
            return None
        if self._paths is None:
            self._paths = _paths(self._root)
        return self._paths.get(id(tree))

    def error(self, reason: str, where: str, tree: Any = None, key: str = "", suggestion: str = "") -> ConfigError:
        """Return the error for the value at a key of a mapping, or for the mapping itself."""
        path = self._path(tree)
        line = None if path is None else self._lines.find((*path, key) if key else path)
        if line is None and path:
            line = self._lines.find(path)  # the key is missing
        return ConfigError(location(self._source, line), where, reason, suggestion)

    def place(self, tree: Any, *keys: str | int) -> str:
        """Return file and line of a key in a mapping, or of its nearest existing parent."""
        path = self._path(tree)
        for end in range(len(keys), -1, -1) if path is not None else ():
            line = self._lines.find((*path, *keys[:end]) if path is not None else ())
            if line is not None:
                return location(self._source, line)
        return self._source.name

    def table(self, tree: Any, key: str, where: str = "") -> dict[str, Any]:
        """Return the mapping at a key of a mapping. Raises ConfigError if the value has another type."""
        value = tree.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.error("expected a mapping of keys to values", f"{where}{key}", tree, key)
        return value

    def tables(self, tree: Any, key: str, where: str = "") -> list[dict[str, Any]]:
        """Return the list of mappings at a key of a mapping. Raises ConfigError if the value has another type."""
        value = tree.get(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise self.error("expected a list of mappings", f"{where}{key}", tree, key)
        return value

    def items(self, tree: Any, key: str, where: str = "") -> list[Any]:
        """Return the list at a key of a mapping. Raises ConfigError if the value has another type."""
        value = tree.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.error("expected a list", f"{where}{key}", tree, key)
        return value

    def texts(self, tree: Any, key: str, where: str = "") -> list[str]:
        """Return the list of strings at a key of a mapping. Raises ConfigError if the value has another type."""
        value = self.items(tree, key, where)
        if not all(map(_is_scalar, value)):
            raise self.error("expected a list of strings", f"{where}{key}", tree, key)
        return [text(one) for one in value]

    def text(self, tree: Any, key: str, where: str = "") -> str:
        """Return the string, or the text of a number, at a key of a mapping. Raises ConfigError for another type."""
        value = tree.get(key)
        if not _is_scalar(value):
            raise self.error("expected a string", f"{where}{key}", tree, key)
        return text(value)

    def pairs(self, tree: Any, key: str, where: str = "") -> dict[str, str]:
        """Return a mapping of strings, such as labels, at a key of a mapping. Raises ConfigError for another type."""
        table = self.table(tree, key, where)
        for name, value in table.items():
            if not _is_scalar(name) or not _is_scalar(value):
                raise self.error("expected a string", f"{where}{key}.{name}", table, str(name))
        return {text(name): text(value) for name, value in table.items()}

    def number(self, tree: Any, key: str, maximum: int, where: str = "") -> int:
        """Return the whole number at a key of a mapping. Raises ConfigError if it is not between 0 and `maximum`."""
        value = tree.get(key)
        if value is None:
            return 0
        if not is_number(value, maximum):
            raise self.error(f"expected a whole number from 0 to {maximum}", f"{where}{key}", tree, key)
        return int(value)

    def flag(self, tree: Any, key: str, where: str = "") -> bool:
        """Return the boolean at a key of a mapping. Raises ConfigError if the value has another type."""
        value = tree.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.error("expected true or false", f"{where}{key}", tree, key)
        return bool(value)


def is_number(value: Any, maximum: int) -> bool:
    """Whether a value is a whole number from 0 to `maximum`, possibly in quotes."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= maximum


def text(value: Any) -> str:
    """Return the YAML text of a scalar. Returns "" for null."""
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, (dict, list, tuple))


def _paths(root: Any) -> dict[int, Path]:
    """The path to each mapping and list of a tree, by `id()`, which is valid as long as the tree exists."""
    waiting: list[tuple[Any, Path]] = [(root, ())]
    paths: dict[int, Path] = {}
    while waiting:
        value, path = waiting.pop()
        if id(value) in paths:
            continue
        if isinstance(value, dict):
            paths[id(value)] = path
            waiting += [(item, (*path, str(key))) for key, item in dict.items(value)]
        elif isinstance(value, list):
            paths[id(value)] = path
            waiting += [(item, (*path, place)) for place, item in enumerate(value)]
    return paths
