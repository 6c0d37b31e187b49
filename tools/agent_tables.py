"""Tables of the documentation about the node agent: its modes, and the access that each choice needs."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support import hook_modes
from tools.deployment.agent.table import MODES, Row, read

__all__ = ["modes", "needs"]

_MODES = ("nri", "proxy", "standalone")


def needs() -> Iterator[tuple[str, ...]]:
    """The access to a node that choices open; choices of one kind with the same access share a row."""
    yield ("chosen", "paths of the node", "more")
    choices: dict[tuple[str, str, str], list[str]] = {}
    for row in read():
        paths = ", ".join(f"`{mount.host}`{' (written)' if mount.write else ''}" for mount in row.mounts)
        default = " (default)" if row.choice == "mode" and row.value in MODES else ""
        name = "" if row.choice == "always" else f" `{row.value}`{default}"
        choices.setdefault((row.choice, paths or "-", _more(row) or "-"), []).append(name)
    for (choice, *cells), names in choices.items():
        yield (choice + ",".join(names), *cells)


def _more(row: Row) -> str:
    texts = [f"{name} ({why})" for name, why in row.capabilities.items()]
    texts += ["the node's processes"] * bool(row.host_pid) + ["the node's network"] * bool(row.host_network)
    texts += [f"role `{row.rbac}`"] * bool(row.rbac) + [f"not in a DaemonSet: {row.unit_only}"] * bool(row.unit_only)
    return ", ".join(texts)


def modes() -> Iterator[tuple[str, ...]]:
    """The effects of hooks that one mode lacks; the tests of the transports use the same table."""
    modes_by_effect: dict[tuple[str, str, str], set[str]] = {}
    for case in hook_modes.CASES:
        for effect in case.effects:
            modes_by_effect.setdefault((case.hook, _effect(effect), effect.place), set()).update(effect.modes)
    places: dict[tuple[str, str], dict[str, list[str]]] = {}
    for (hook, what, place), where in sorted(modes_by_effect.items()):
        if not where or where.issuperset(_MODES):  # in force on none of the tested machines, or in every mode
            continue
        names = ", ".join(f"`{mode}`" for mode in _MODES if mode in where)
        places.setdefault((hook, names), {}).setdefault(what, []).append(place)
    yield ("hook", "effect", "only in mode")
    for (hook, names), effects in places.items():
        yield (hook, ", ".join(f"{what} ({', '.join(texts)})" for what, texts in effects.items()), names)


def _effect(effect: hook_modes.Effect) -> str:
    """The name of an effect; a setting is code, and a cleared one is marked."""
    name = effect.name.split(" ")[0] if effect.name.startswith(("env ", "mount ", "device ")) else effect.name
    return f"`{name}`{' cleared' if effect.name == 'cpuset.cpus' and not effect.value else ''}"
