"""Tables of the documentation about the node agent: its gates, its modes, and the access that each choice needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nri import host
from nri.agent.koordinator.profile import PROFILE
from nri.agent.ownership import Owns
from tests.support import hook_modes
from tools.deployment.agent.table import MODES, Row, read

__all__ = ["gates", "modes", "needs"]


def gates() -> Iterator[tuple[str, ...]]:
    """Every gate: its name, its default, a description, and the cgroup settings that it writes."""
    yield ("gate", "default", "what", "knobs")
    for hook in PROFILE.hooks:
        yield (f"`{hook.name}`", _on(hook.default), "hook", _knobs(hook.owns))
    for row in PROFILE.strategies:
        yield (f"`{row.name}`", _on(row.default), f"strategy: {row.what}", _knobs(row.owns))
    for name, (default, what) in PROFILE.switches.items():
        yield (f"`{name}`", _on(default), what, "")


def needs() -> Iterator[tuple[str, ...]]:
    """The access to a node that each choice opens."""
    yield ("chosen", "paths of the node", "more", "why")
    for row in read():
        name = "always" if row.choice == "always" else f"{row.choice} `{row.value}`"
        if row.choice == "mode" and row.value in MODES:
            name += " (default)"
        paths = ", ".join(f"`{mount.host}`{' (written)' if mount.write else ''}" for mount in row.mounts)
        yield (name, paths or "-", _more(row) or "-", row.why)


def _more(row: Row) -> str:
    texts = [f"{name} ({why})" for name, why in row.capabilities.items()]
    texts += ["the node's processes"] * bool(row.host_pid) + ["the node's network"] * bool(row.host_network)
    texts += [f"role `{row.rbac}`"] * bool(row.rbac) + [f"not in a DaemonSet: {row.unit_only}"] * bool(row.unit_only)
    return ", ".join(texts)


def _on(default: bool) -> str:
    return "on" if default else "off"


def _knobs(owns: Iterable[Owns]) -> str:
    """The cgroup settings among the owned values."""
    return ", ".join(f"`{name}`" for name in dict.fromkeys(owner.knob for owner in owns) if name in host.KNOBS)


def modes() -> Iterator[tuple[str, ...]]:
    """The effects of hooks by mode; the tests of the transports use the same table."""
    columns = ("nri", "proxy", "standalone")
    yield ("hook", "effect", *columns)
    modes_by_effect: dict[tuple[str, str], set[str]] = {}
    for case in hook_modes.CASES:
        for effect in case.effects:
            modes_by_effect.setdefault((case.hook, f"{effect.place}: {_effect(effect)}"), set()).update(effect.modes)
    before = ""
    for (hook, what), where in sorted(modes_by_effect.items()):
        if not where:  # in force on none of the tested machines
            continue
        yield (hook if hook != before else "", what, *("yes" if mode in where else "no" for mode in columns))
        before = hook


def _effect(effect: hook_modes.Effect) -> str:
    """The name of an effect; a setting is code, and a cleared one is marked."""
    name = effect.name.split(" ")[0] if effect.name.startswith(("env ", "mount ", "device ")) else effect.name
    return f"`{name}`{' cleared' if effect.name == 'cpuset.cpus' and not effect.value else ''}"
