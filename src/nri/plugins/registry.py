"""Plugins that are registered by name: entry points of the group `nri.plugins` of all installed distributions.

Listing names does not import plugins, so a broken plugin does not hide other plugins.
"""

from __future__ import annotations

import inspect
import re
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nri.api.events import EVENTS
from nri.config.listing import Key, keys
from nri.errors import ConfigError, NriError
from nri.stub.base import PluginBase
from nri.stub.plugin import Plugin
from nri.text import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.metadata import EntryPoint

    from nri.config.listing import Key

#: The group of entry points, which map a plugin's name to `module:Class`.
GROUP = "nri.plugins"


def registered() -> list[EntryPoint]:
    """List the entry points of plugins by name; two distributions may register the same name."""
    return sorted(set(metadata.entry_points(group=GROUP)), key=lambda entry: (entry.name, entry.value))


def names() -> list[str]:
    """List the names of all registered plugins."""
    return sorted({entry.name for entry in registered()})


def find(name: str) -> EntryPoint | None:
    """Find a plugin by its name, with or without an index before the name. Returns None if it is not registered.

    Raises ConfigError if two distributions have registered the name.
    """
    entries = [entry for entry in registered() if entry.name in (name, re.sub(r"^\d\d-", "", name))]
    if len(entries) > 1:
        places = ", ".join(entry.value for entry in entries)
        raise ConfigError(name, "", f"several plugins are registered under this name. Choose a plugin: {places}")
    return entries[0] if entries else None


def load(entry: EntryPoint) -> type[Plugin]:
    """Import the class of a registered plugin. Raises NriError if that fails."""
    try:
        loaded = entry.load()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise NriError(f"{entry.name}: {entry.value} cannot be loaded: {reason}") from error
    if not isinstance(loaded, type) or not issubclass(loaded, Plugin):
        raise NriError(f"{entry.name}: {entry.value} is not a class that inherits from nri.Plugin")
    return loaded


def not_registered(name: str, *, or_file: bool = False) -> ConfigError:
    """Return the error for an unknown name, with the most similar name. With `or_file`, no such file exists either."""
    suggestion = nearest(name, names())
    step = f"; did you mean {suggestion}?" if suggestion else f". Plugins: {', '.join(names())}"
    what = "no file or plugin of this name exists" if or_file else "no plugin of this name exists"
    return ConfigError(name, "", f"{what}{step}")


def describe(entry: EntryPoint) -> dict[str, Any]:
    """Describe a plugin by its class. Raises NriError if it cannot be loaded."""
    plugin = load(entry)
    text = inspect.cleandoc(plugin.__doc__ or "")
    spec = find_spec(entry.module)
    readme = Path(spec.origin).with_name("README.md") if spec and spec.origin else None
    config = plugin.Config
    return {
        "name": entry.name,
        "summary": text.partition("\n")[0].rstrip("."),
        "description": text,
        "class": entry.value,
        "distribution": f"{entry.dist.name} {entry.dist.version}" if entry.dist else "",
        "events": [spec.rpc for spec in EVENTS if getattr(plugin, spec.method) is not getattr(PluginBase, spec.method)],
        "annotations": dict(plugin.annotations),
        "flags": {f"--{name} {row[1]}".strip(): row[2] for name, row in plugin.flags.items()},
        "configuration": [key._asdict() for key in _keys(config, plugin.flags)] if config else [],
        "readme": str(readme) if readme and readme.is_file() else "",
    }


def _keys(config: type, flags: Mapping[str, tuple[str, str, str]]) -> list[Key]:
    """List the keys of a configuration. A key without a description gets the description of its flag."""
    meaning_by_key = {key: meaning for key, _, meaning in flags.values()}
    rows = [key._replace(meaning=key.meaning or meaning_by_key.get(key.key, "")) for key in keys(config)]
    return [key._replace(meaning=re.sub(r" \(default.*\)$", "", key.meaning)) if key.default else key for key in rows]
