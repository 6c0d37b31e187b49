"""The plugins that are registered by name: entry points of the group `nri.plugins`, of this distribution and of others.

Rules: to list names loads no plugin; one that cannot be loaded is an error of its own and hides no other. Next:
`nri.cli.support.plugin_loader`, which takes files and modules as well.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nri.cli.errors import USAGE, Failure

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    import click
    from click.shell_completion import CompletionItem

    from nri.stub.plugin import Plugin

__all__ = ["GROUP", "complete", "find", "load", "names", "registered"]

#: The group of entry points: name of the plugin -> module:Class.
GROUP = "nri.plugins"


def registered() -> list[EntryPoint]:
    """List the entry points of plugins by name; a name may be there twice, of two distributions."""
    from importlib.metadata import entry_points

    return sorted(set(entry_points(group=GROUP)), key=lambda entry: (entry.name, entry.value))


def names() -> list[str]:
    """List the names of all registered plugins."""
    return sorted({entry.name for entry in registered()})


def find(name: str) -> EntryPoint | None:
    """Find a plugin by its name, with or without an index before it; None if there is none.

    Failure if two distributions have registered the name.
    """
    found = [entry for entry in registered() if entry.name in (name, re.sub(r"^\d\d-", "", name))]
    if len(found) > 1:
        places = ", ".join(entry.value for entry in found)
        raise Failure(f"{name}: several plugins are registered under this name. Say which: {places}", USAGE)
    return found[0] if found else None


def load(entry: EntryPoint) -> type[Plugin]:
    """Load the class of a registered plugin. Failure says why it cannot be loaded."""
    from nri.stub.plugin import Plugin

    try:
        loaded = entry.load()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise Failure(f"{entry.name}: {entry.value} cannot be loaded: {reason}") from error
    if not isinstance(loaded, type) or not issubclass(loaded, Plugin):
        raise Failure(f"{entry.name}: {entry.value} is not a class that inherits from nri.Plugin")
    return loaded


def complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a plugin, with or without an index before it; files are completed as well."""
    from click.shell_completion import CompletionItem

    index = incomplete[:3] if re.match(r"\d\d-", incomplete) else ""
    found = [CompletionItem(index + name) for name in names() if name.startswith(incomplete.removeprefix(index))]
    return [*found, CompletionItem(incomplete, type="file")]
