"""Write messages as lines of YAML like the Go library: sorted keys, enums as numbers, no unset fields.

PyYAML is not used: it takes ten times as long, and importing it loads its parser too.
"""

from __future__ import annotations

import re
from binascii import b2a_base64

from nri.text import quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Texts that YAML reads as strings even without quotes, unless they are in `_NOT_STRINGS`.
_PLAIN = re.compile(r"[A-Za-z_/](?:[A-Za-z0-9_./@+=,()%^-]|:(?=[^ ])| (?=[^ #]))*").fullmatch
#: Words that YAML reads as booleans or null.
_NOT_STRINGS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))


def tree_of(value: Any) -> Any:
    """A message as dicts, lists and scalars by the protocol's field names, without unset fields."""
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
    """Lines of YAML in block style. A scalar, an empty mapping or an empty list is one line."""
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
    first, *lines = yaml_lines(item, indent + "  ")
    return [f"{indent}- {first[len(indent) + 2 :]}", *lines]


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return value if _PLAIN(value) and value.lower() not in _NOT_STRINGS else _quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dict, list)):
        return "{}" if isinstance(value, dict) else "[]"
    return repr(value)


def _quoted(text: str) -> str:
    """A string in double quotes."""
    return f'"{text}"' if text.isalnum() else quote(text)
