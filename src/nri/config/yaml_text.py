"""Parse YAML to plain values by YAML 1.2's core schema, limited against malicious texts.

PyYAML alone converts `no`, `on`, `1:30`, `0644` and dates to other types, accepts duplicate keys, recurses in C until
the process dies, and expands aliases without a limit. This module prevents all of that.
"""

from __future__ import annotations

import functools
import re

from nri.config.key_path import Path, first_line, location, path_text
from nri.errors import ConfigError
from nri.text import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from nri.config.source import Source

#: Maximum number of levels. Configuration has fewer.
DEEPEST = 100
#: Maximum number of values. Configuration has fewer, but aliases can expand a few lines to billions of values.
MOST_VALUES = 200_000
#: Maximum length of a number in characters, which is Python's limit.
LONGEST_NUMBER = 4300


def parse_yaml(source: Source) -> Any:
    """The source as dicts, lists and scalars, or None if it is empty. Raises ConfigError with the line if invalid."""
    return _read(source, MOST_VALUES, lambda loader, node: loader.construct_document(node))


def compose_yaml(source: Source, most_values: int = MOST_VALUES) -> Any:
    """The source as PyYAML's nodes with lines, or None if it is empty. The checks are those of `parse_yaml`."""
    return _read(source, most_values, lambda _, node: node)


def _read(source: Source, most_values: int, finish: Callable[[Any, Any], Any]) -> Any:
    import yaml

    loader = None
    try:
        go = source.format in ("go-yaml", "lenient-go-yaml")
        loader = _yaml_loader(go)(source.text)
        _refuse_deep(source)
        node = loader.get_single_node()
        if node is None:
            return None
        if source.format != "lenient-go-yaml" and (repeated := next(_duplicate_keys(source, node, (), set()), None)):
            raise repeated
        _count_values(source, node, {}, most_values)
        _refuse_tags(source, node, _patterns(go), set())
        return finish(loader, node)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        problem = str(error.problem or error.context).replace(
            "but found another document", "there is a second document"
        )
        hint = "indent with spaces, not tabs" if "\\t" in problem else ""
        raise ConfigError(location(source, line), "", f"not valid YAML: {problem}", hint) from None
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(source.name, "", f"not valid YAML: {first_line(error)}") from None
    finally:
        if loader is not None:
            loader.dispose()


#: The typed scalars of YAML 1.2's core schema: tag, pattern, first characters.
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
#: As above, as Go's gopkg.in/yaml.v2 has it, through which Kubernetes reads YAML: YAML 1.1 without dates and base 60.
_GO_SCHEMA = (
    ("bool", r"y|Y|yes|Yes|YES|on|On|ON|n|N|no|No|NO|off|Off|OFF|true|True|TRUE|false|False|FALSE", "yYoOnNtTfF"),
    _CORE_SCHEMA[1],
    ("int", r"[-+]?(?:0|[1-9][0-9_]*|0[0-7_]+|0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+)", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan", "-+.0123456789"),
    _CORE_SCHEMA[4],
)


@functools.cache
def _patterns(go: bool) -> dict[str, re.Pattern[str]]:
    """The pattern of each tag for scalars."""
    schema = _GO_SCHEMA if go else _CORE_SCHEMA
    return {f"tag:yaml.org,2002:{tag}": re.compile(pattern) for tag, pattern, _ in schema}


#: Nodes that are not a scalar, or any text, by their kind.
_TAGS = {"mapping": "tag:yaml.org,2002:map", "sequence": "tag:yaml.org,2002:seq", "scalar": "tag:yaml.org,2002:str"}


@functools.cache
def _yaml_loader(go: bool = False) -> Any:
    """PyYAML's safe loader (the C one where it is built in) with the scalars of the core schema, or of Go's."""
    import yaml

    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    words = {**base.bool_values, "y": True, "n": False}
    loader: Any = type("CoreLoader", (base,), {"yaml_implicit_resolvers": {}, "bool_values": words})
    for tag, pattern, first in _GO_SCHEMA if go else _CORE_SCHEMA:
        loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(rf"(?:{pattern})\Z"), list(first))
    return loader


def _refuse_deep(source: Source) -> None:
    """Refuse deep nesting first: PyYAML's C composer recurses without a limit, and would crash the process."""
    import yaml

    depth = 0
    for event in yaml.parse(source.text, Loader=_yaml_loader()):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            line = event.start_mark.line + 1 if event.start_mark else None
            raise ConfigError(location(source, line), "", f"nested deeper than {DEEPEST} levels")


def repeated_keys(source: Source) -> list[ConfigError]:
    """Return an error for each key that is given twice in the same mapping of a valid text."""
    import yaml

    node = yaml.compose(source.text, Loader=_yaml_loader())
    return [] if node is None else [*_duplicate_keys(source, node, (), set())]


def _duplicate_keys(source: Source, node: Any, path: Path, visited: set[int]) -> Iterator[ConfigError]:
    """Yield an error for each key that is given twice: PyYAML lets the last one win, which no author expects."""
    if id(node) in visited or node.id == "scalar":
        return
    visited.add(id(node))
    keys: set[str] = set()
    for position, item in enumerate(node.value):
        key, value = item if node.id == "mapping" else (None, item)
        if key is not None and key.id == "scalar" and key.value != "<<":
            if key.value in keys:
                where = location(source, key.start_mark.line + 1)
                yield ConfigError(where, path_text((*path, key.value)), "duplicate key", "remove one of the two")
            keys.add(key.value)
        part = position if key is None else key.value if key.id == "scalar" else "?"
        yield from _duplicate_keys(source, value, (*path, part), visited)


def _refuse_tags(source: Source, node: Any, patterns: Mapping[str, re.Pattern[str]], visited: set[int]) -> None:
    """Refuse tags outside of the core schema, values that do not fit their tag, and numbers that are too long."""
    if id(node) in visited:
        return
    visited.add(id(node))
    pattern = patterns.get(node.tag) if node.id == "scalar" else None
    where = location(source, node.start_mark.line + 1)
    if pattern is None and node.tag != _TAGS[node.id]:
        tag = node.tag.replace("tag:yaml.org,2002:", "!!")
        raise ConfigError(where, "", f"the tag {tag} is not supported for a {node.id}", "remove the tag")
    if pattern is not None and (pattern.fullmatch(node.value) is None or len(node.value) > LONGEST_NUMBER):
        tag = node.tag.rpartition(":")[2]
        raise ConfigError(where, "", f'"{plain(node.value, 60)}" is not a valid {tag}, or is too long')
    if node.id != "scalar":
        for child in node.value if node.id == "sequence" else [part for pair in node.value for part in pair]:
            _refuse_tags(source, child, patterns, visited)


def _count_values(source: Source, node: Any, weighed: dict[int, tuple[int, int]], max_values: int) -> tuple[int, int]:
    """Count the values of a node, and their levels, aliases each time: few lines can expand to billions.

    `weighed` has both numbers of finished nodes, and zeros for nodes in progress, which contain themselves.
    """
    if node.id == "scalar":
        return 1, 0
    where = location(source, node.start_mark.line + 1)
    if id(node) in weighed:
        if not weighed[id(node)][0]:
            raise ConfigError(where, "", "the value contains itself")
        return weighed[id(node)]
    weighed[id(node)] = 0, 0
    children = node.value if node.id == "sequence" else [part for pair in node.value for part in pair]
    weights = [(1, 0), *(_count_values(source, child, weighed, max_values) for child in children)]
    values, depth = sum(weight for weight, _ in weights), 1 + max(weight for _, weight in weights)
    if values > max_values:
        raise ConfigError(
            where, "", f"expands to more than {max_values} values", "remove aliases (*name): they multiply values"
        )
    if depth > DEEPEST:
        raise ConfigError(
            where, "", f"nested deeper than {DEEPEST} levels", "remove aliases (*name), which nest values"
        )
    weighed[id(node)] = values, depth
    return values, depth


class YamlLines:
    """The lines of the keys of a YAML text, or of JSON, which YAML includes except for tabs."""

    def __init__(self, text: str) -> None:
        import yaml

        self._root: Any = yaml.compose(text.replace("\t", " "), Loader=_yaml_loader())
        self._tables: dict[int, dict[str, tuple[int, Any]]] = {}

    def find(self, path: Path) -> int | None:
        """The line of a key, also in another letter case. Raises LookupError if it does not exist."""
        node, line = self._root, None
        for part in path:
            if node.id == "mapping":
                table, key = self._table(node), str(part)
                if key not in table:
                    key = next(iter(name for name in table if name.casefold() == key.casefold()), key)
                line, node = table[key]
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
