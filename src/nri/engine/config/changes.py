"""Decide which changed settings a running engine adopts, and which require a restart."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, NamedTuple

from nri.config.listing import rows
from nri.engine.config.values import EngineConfig

#: The keys and tables that the engine reads only when it starts: sockets, folders, and the state that they refer to.
FIXED_KEYS = (
    "socket", "root", "state", "dry", "domains", "images.snapshots", "cgroups", "streaming.address", "streaming.port",
    "streaming.tls_certificate", "streaming.tls_key", "streaming.tls_client_ca", "streaming.tls_min_version",
    "nri", "http", "tracing",
)  # fmt: skip


class Changes(NamedTuple):
    """The effect of new settings on a running engine.

    Attributes:
        config: the settings to adopt: the new settings, with the current values of keys that require a restart.
        adopted: the keys whose values change now.
        deferred: the keys whose new values require a restart.
    """

    config: EngineConfig
    adopted: tuple[str, ...]
    deferred: tuple[str, ...]


def compare_settings(present: EngineConfig, new: EngineConfig) -> Changes:
    """Compare the settings of a running engine with new settings.

    A runtime handler stays until the next start, because containers may use it. Raises ValueError if new values
    contradict present values of keys that require a restart.
    """
    config = replace(new, runtimes={**present.runtimes, **new.runtimes})
    for key in FIXED_KEYS:
        config = _with_value(config, key.split("."), present)
    return Changes(config, _different_keys(present, config), _different_keys(config, new))


def _with_value(settings: Any, path: list[str], source: Any) -> Any:
    """Return `settings` with the value that `source` has at `path`."""
    name, *below = path
    value = getattr(source, name)
    return replace(settings, **{name: _with_value(getattr(settings, name), below, value) if below else value})


def _different_keys(first: EngineConfig, second: EngineConfig) -> tuple[str, ...]:
    """Return the keys with different values. The items of a list are one key."""
    first_rows, second_rows = ({row.key: row.value for row in rows(config, {})} for config in (first, second))
    keys = [key for key in {**first_rows, **second_rows} if first_rows.get(key) != second_rows.get(key)]
    return tuple(dict.fromkeys(re.sub(r"\[\d+\].*", "", key) for key in keys))
