"""Values of a manifest, asked for by the kind that they must be of: a table, a list of tables, a list of texts, a text.

Rules: a missing value is an empty one; a value of another kind is a ConfigError with file and key. Pure. Next:
`nri.kube.manifest`, which asks.
"""

from __future__ import annotations

from typing import Any

from nri.errors import ConfigError


class Document:
    """A manifest's file, as errors name it. `where` is put before a key in errors: ``spec.``."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def table(self, tree: Any, key: str, where: str = "") -> dict[str, Any]:
        """Return the table at a key of a table; ConfigError if another kind of value stands there."""
        value = tree.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise ConfigError(self.path, f"{where}{key}", "expected a table of keys")
        return value

    def tables(self, tree: Any, key: str, where: str = "") -> list[dict[str, Any]]:
        """Return the list of tables at a key of a table; ConfigError if another kind of value stands there."""
        value = tree.get(key) or []
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise ConfigError(self.path, f"{where}{key}", "expected a list of tables")
        return value

    def texts(self, tree: Any, key: str) -> list[str]:
        """Return the list of texts at a key of a table; ConfigError if it is no list."""
        value = tree.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise ConfigError(self.path, key, "expected a list")
        return [text(one) for one in value]


def text(value: Any) -> str:
    """Return a scalar as YAML writes it; "" for nothing."""
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)
