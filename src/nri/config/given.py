"""Values by dotted key, as variables of the environment and flags give them: read from ``KEY=VALUE``, made a layer.

Rules: pure. The place of a value is the name of what gave it, so that errors and listings say "--set" or "NRI_SOCKET".
Next: `nri.config.layers` merges them over files.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from nri.config.layers import Layer
from nri.errors import ConfigError

__all__ = ["Given", "given_layer", "parse_setting"]

#: A value that a flag gives: what gave it, and the value.
Given = tuple[str, Any]


def parse_setting(text: str, example: str) -> tuple[str, Any]:
    """A key and its value out of ``KEY=VALUE``. VALUE is TOML; what is none is text. Raises ConfigError.

    `example` is what the error shows.
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError("--set", key, "not KEY=VALUE", f"such as --set {example}")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return key.strip(), value.strip()


def given_layer(given: Mapping[str, Given]) -> Layer:
    """Values by dotted key as a layer; their place is the flag or the variable."""
    tree: dict[str, Any] = {}
    for key, (name, value) in given.items():
        *above, last = key.split(".")
        table = tree
        for part in above:
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                raise ConfigError(name, key, f'"{part}" is a value and no table')
        table[last] = value

    def place(path: Sequence[str | int]) -> str:
        for end in range(len(path), 0, -1):
            wanted = ".".join(map(str, path[:end]))
            if wanted in given:
                return given[wanted][0]
        return ", ".join(dict.fromkeys(name for name, _ in given.values()))

    return Layer(tree, place)
