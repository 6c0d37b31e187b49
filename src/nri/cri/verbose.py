"""Parse the verbose information in a runtime's status answers. It is not trusted: invalid values count as missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nri.config.syntax import parse_json

#: Maximum length of a parsed text. An OCI spec with many mounts has about a hundred thousand characters.
_MAX_LENGTH = 4 << 20


def parse_info(info: Mapping[str, str]) -> dict[str, Any]:
    """The object under the key ``info``, or the object of all keys, as in old versions of CRI-O."""
    if info.get("info"):
        table = _json(info["info"])
        return table if isinstance(table, dict) else {}
    return {key: _json(value) for key, value in info.items()}


def _json(text: str) -> Any:
    """Parse a text. Returns None if it is too long or not JSON."""
    if len(text) > _MAX_LENGTH:
        return None
    try:
        return parse_json(text)
    except ValueError:
        return None
