"""The verbose part of a runtime's status answers: JSON of its own, under one key or beside it.

Rules: a runtime's answer is not trusted to be of any form; a part that is missing, too long or no JSON is not known.
Next: `nri.agent.pods.verbose_info` and `nri.proxy.events.runtime_queries`, which know what is in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nri.config.syntax import parse_json

__all__ = ["parse_info"]

#: The longest text that is read, in characters; an OCI spec with many mounts has a hundred thousand.
_LONGEST = 4 << 20


def parse_info(info: Mapping[str, str]) -> dict[str, Any]:
    """The table that runtimes put under ``info``, or that all keys make together, as CRI-O once had it."""
    if info.get("info"):
        found = _json(info["info"])
        return found if isinstance(found, dict) else {}
    return {key: _json(value) for key, value in info.items()}


def _json(text: str) -> Any:
    """The value of a text; None for one that is too long or no JSON."""
    if len(text) > _LONGEST:
        return None
    try:
        return parse_json(text)
    except ValueError:
        return None
