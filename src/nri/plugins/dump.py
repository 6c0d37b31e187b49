"""Messages as lines of YAML, for plugins that show what they are given: keys sorted, fields that are not set left out.

One job: what the Go library's messages look like in YAML, so that the same scripts read it: names of fields as in the
protocol, numbers for enums, lists at the indent of their key. A text that YAML would take for something else, or that
does not print, is in double quotes, so that each line is one line of a log. Pure; PyYAML would load its whole parser,
and takes ten times as long. Next: `nri.plugins.logger` and `nri.plugins.differ` print these lines.
"""

from __future__ import annotations

import re
from binascii import b2a_base64

from nri.text import quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["tree_of", "yaml_lines"]

#: Texts that YAML reads as the texts that they are, but for the words below.
_PLAIN = re.compile(r"[A-Za-z_/](?:[A-Za-z0-9_./@+=,()%^-]|:(?=[^ ])| (?=[^ #]))*").fullmatch
_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))


def tree_of(value: Any) -> Any:
    """A message as dicts, lists and scalars, by the names of its fields; what is not set is left out."""
    if isinstance(value, (str, int, float)):
        return value
    if isinstance(value, bytes):
        return b2a_base64(value, newline=False).decode()
    if hasattr(value, "ListFields"):
        return {field.name: tree_of(inner) for field, inner in value.ListFields()}
    if hasattr(value, "items"):
        return {str(key): tree_of(inner) for key, inner in value.items()}
    return [tree_of(inner) for inner in value]


def yaml_lines(tree: Any, indent: str = "") -> list[str]:
    """Lines of YAML, in block style; a scalar, or what is empty, is one line."""
    if isinstance(tree, dict) and tree:
        return [line for key in sorted(tree) for line in _entry(key, tree[key], indent)]
    if isinstance(tree, list) and tree:
        return [line for item in tree for line in _item(item, indent)]
    return [indent + _scalar(tree)]


def _entry(key: str, value: Any, indent: str) -> list[str]:
    name = _scalar(key)
    if value and isinstance(value, dict):
        return [f"{indent}{name}:", *yaml_lines(value, indent + "  ")]
    if value and isinstance(value, list):
        return [f"{indent}{name}:", *yaml_lines(value, indent)]
    return [f"{indent}{name}: {_scalar(value)}"]


def _item(item: Any, indent: str) -> list[str]:
    first, *others = yaml_lines(item, indent + "  ")
    return [f"{indent}- {first[len(indent) + 2 :]}", *others]


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return value if _PLAIN(value) and value.lower() not in _WORDS else _quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dict, list)):
        return "{}" if isinstance(value, dict) else "[]"
    return repr(value)


def _quoted(text: str) -> str:
    """A text in double quotes, also if it is made of letters and digits only."""
    return f'"{text}"' if text.isalnum() else quote(text)
