"""YAML to a tree of plain values, as YAML 1.2's core schema has it, and bounded against texts that are made to harm.

PyYAML alone turns `no`, `on`, `1:30`, `0644` and dates into something that was not written, lets the last of two equal
keys win, recurses in C until the process dies, and follows aliases wherever they multiply. None of that is left here.
"""

from __future__ import annotations

import functools
import re

from nri.config.place import Path, at, first_line, show
from nri.errors import ConfigError
from nri.text import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from nri.config.source import Source

#: No configuration of this field is nested as deeply.
DEEPEST = 100
#: Nor does any have as many values; aliases can make few lines expand to billions.
MOST_VALUES = 200_000
#: The longest number, in characters; Python reads no longer ones.
LONGEST_NUMBER = 4300


def parse_yaml(source: Source) -> Any:
    """The text as dicts, lists and scalars, or None; ConfigError for what is wrong with it, with the line."""
    return _read(source, MOST_VALUES, lambda loader, node: loader.construct_document(node))


def compose_yaml(source: Source, most_values: int = MOST_VALUES) -> Any:
    """The text as PyYAML's nodes, with lines and scalars as they are written, or None; checked as by `parse_yaml`."""
    return _read(source, most_values, lambda _, node: node)


def _read(source: Source, most_values: int, finish: Callable[[Any, Any], Any]) -> Any:
    import yaml

    loader = None
    try:
        loader = _yaml_loader()(source.text)
        _refuse_deep(source)
        node = loader.get_single_node()
        if node is None:
            return None
        _refuse_twice(source, node, (), set())
        _weigh(source, node, {}, most_values)
        _refuse_tags(source, node, set())
        return finish(loader, node)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        problem = str(error.problem or error.context).replace(
            "but found another document", "there is a second document"
        )
        hint = "indent with blanks, not tabs" if "\\t" in problem else ""
        raise ConfigError(at(source, line), "", f"not valid YAML: {problem}", hint) from None
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(source.name, "", f"not valid YAML: {first_line(error)}") from None
    finally:
        if loader is not None:
            loader.dispose()


#: Scalars that YAML 1.2's core schema gives a type: tag, pattern, first characters.
_CORE_SCHEMA = (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan",
        "-+.0123456789",
    ),
    ("merge", r"<<", "<"),
)


_PATTERNS = {f"tag:yaml.org,2002:{tag}": re.compile(pattern) for tag, pattern, _ in _CORE_SCHEMA}
#: Nodes that are not a scalar, or any text, by their kind.
_TAGS = {"mapping": "tag:yaml.org,2002:map", "sequence": "tag:yaml.org,2002:seq", "scalar": "tag:yaml.org,2002:str"}


@functools.cache
def _yaml_loader() -> Any:
    """PyYAML's safe loader (the C one where it is built in) with the core schema's scalars."""
    import yaml

    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader: Any = type("CoreLoader", (base,), {"yaml_implicit_resolvers": {}})
    for tag, pattern, first in _CORE_SCHEMA:
        loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(rf"(?:{pattern})\Z"), list(first))
    return loader


def _refuse_deep(source: Source) -> None:
    """Refuse deep nesting first: PyYAML's C composer recurses without a bound, and would take the process down."""
    import yaml

    depth = 0
    for event in yaml.parse(source.text, Loader=_yaml_loader()):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            line = event.start_mark.line + 1 if event.start_mark else None
            raise ConfigError(at(source, line), "", f"nested deeper than {DEEPEST} levels")


def _refuse_twice(source: Source, node: Any, path: Path, visited: set[int]) -> None:
    """Refuse a key that is given twice: PyYAML lets the last one win in silence, which no author of both expects."""
    if id(node) in visited or node.id == "scalar":
        return
    visited.add(id(node))
    keys: set[str] = set()
    for position, item in enumerate(node.value):
        key, value = item if node.id == "mapping" else (None, item)
        if key is not None and key.id == "scalar" and key.value != "<<":
            if key.value in keys:
                where = at(source, key.start_mark.line + 1)
                raise ConfigError(where, show((*path, key.value)), "duplicate key", "remove one of the two")
            keys.add(key.value)
        part = position if key is None else key.value if key.id == "scalar" else "?"
        _refuse_twice(source, value, (*path, part), visited)


def _refuse_tags(source: Source, node: Any, visited: set[int]) -> None:
    """Refuse tags outside of the core schema, values that do not fit their tag, and numbers that are too long."""
    if id(node) in visited:
        return
    visited.add(id(node))
    pattern = _PATTERNS.get(node.tag) if node.id == "scalar" else None
    where = at(source, node.start_mark.line + 1)
    if pattern is None and node.tag != _TAGS[node.id]:
        tag = node.tag.replace("tag:yaml.org,2002:", "!!")
        raise ConfigError(where, "", f"the tag {tag} is not known here for a {node.id}", "leave it out")
    if pattern is not None and (pattern.fullmatch(node.value) is None or len(node.value) > LONGEST_NUMBER):
        tag = node.tag.rpartition(":")[2]
        raise ConfigError(where, "", f'"{plain(node.value, 60)}" is no {tag}, or too long for one')
    if node.id != "scalar":
        for child in node.value if node.id == "sequence" else [part for pair in node.value for part in pair]:
            _refuse_tags(source, child, visited)


def _weigh(source: Source, node: Any, weighed: dict[int, tuple[int, int]], max_values: int) -> tuple[int, int]:
    """Count the values of a node, and their levels, aliases each time: few lines can expand to billions.

    `weighed` holds both of nodes that are done, and zeros for those that are being weighed: those hold themselves.
    """
    if node.id == "scalar":
        return 1, 0
    where = at(source, node.start_mark.line + 1)
    if id(node) in weighed:
        if not weighed[id(node)][0]:
            raise ConfigError(where, "", "the value holds itself")
        return weighed[id(node)]
    weighed[id(node)] = 0, 0
    children = node.value if node.id == "sequence" else [part for pair in node.value for part in pair]
    weights = [(1, 0), *(_weigh(source, child, weighed, max_values) for child in children)]
    values, depth = sum(weight for weight, _ in weights), 1 + max(weight for _, weight in weights)
    if values > max_values:
        raise ConfigError(
            where, "", f"expands to more than {max_values} values", "aliases (*name) multiply what they name"
        )
    if depth > DEEPEST:
        raise ConfigError(where, "", f"nested deeper than {DEEPEST} levels", "aliases (*name) nest what they name")
    weighed[id(node)] = values, depth
    return values, depth


class YamlLines:
    """The lines of the keys of a text, which is gone through once. Also JSON's, which YAML contains but for tabs."""

    def __init__(self, text: str) -> None:
        import yaml

        self._root: Any = yaml.compose(text.replace("\t", " "), Loader=_yaml_loader())
        self._tables: dict[int, dict[str, tuple[int, Any]]] = {}

    def find(self, path: Path) -> int | None:
        """The line of a key. LookupError if it is not there."""
        node, line = self._root, None
        for part in path:
            if node.id == "mapping":
                line, node = self._table(node)[str(part)]
            else:
                node = node.value[part]
                line = node.start_mark.line + 1
        return line

    def _table(self, node: Any) -> dict[str, tuple[int, Any]]:
        table = self._tables.get(id(node))
        if table is None:
            table = {str(key.value): (key.start_mark.line + 1, value) for key, value in reversed(node.value)}
            self._tables[id(node)] = table
        return table
