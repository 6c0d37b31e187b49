"""Tables of the documentation about the node agent: its gates, its modes, and what each choice opens of a node.

Next: `tools.generate_docs`, which puts them into the pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nri import host
from nri.agent.koordinator.profile import PROFILE
from nri.agent.ownership import Owns
from tests.support import hook_modes
from tools.deployment.agent.table import MODES, Row, read

__all__ = ["gates", "modes", "needs"]


def gates() -> Iterator[tuple[str, ...]]:
    """Every gate: its name, whether it is on by default, what it is, and which knobs it sets."""
    yield ("gate", "default", "what", "knobs")
    for hook in PROFILE.hooks:
        yield (f"`{hook.name}`", _on(hook.default), "hook", _knobs(hook.owns))
    for row in PROFILE.strategies:
        yield (f"`{row.name}`", _on(row.default), f"strategy: {row.what}", _knobs(row.owns))
    for name, (default, what) in PROFILE.switches.items():
        yield (f"`{name}`", _on(default), what, "")


def needs() -> Iterator[tuple[str, ...]]:
    """What each choice opens of a node."""
    yield ("chosen", "paths of the node", "more", "why")
    for row in read():
        name = "always" if row.choice == "always" else f"{row.choice} `{row.value}`"
        if row.choice == "mode" and row.value in MODES:
            name += " (default)"
        paths = ", ".join(f"`{mount.host}`{' (written)' if mount.write else ''}" for mount in row.mounts)
        yield (name, paths or "-", _more(row) or "-", row.why)


def _more(row: Row) -> str:
    found = [f"{name} ({why})" for name, why in row.capabilities.items()]
    found += ["the node's processes"] * bool(row.host_pid) + ["the node's network"] * bool(row.host_network)
    found += [f"role `{row.rbac}`"] * bool(row.rbac) + [f"not in a DaemonSet: {row.unit_only}"] * bool(row.unit_only)
    return ", ".join(found)


def _on(default: bool) -> str:
    return "on" if default else "off"


def _knobs(owns: Iterable[Owns]) -> str:
    """The knobs of cgroups among what is owned."""
    return ", ".join(f"`{name}`" for name in dict.fromkeys(each.knob for each in owns) if name in host.KNOBS)


def modes() -> Iterator[tuple[str, ...]]:
    """Which effect of which hook each mode brings about: the table that the transports' tests are held against."""
    columns = ("nri", "proxy", "standalone")
    yield ("hook", "effect", *columns)
    found: dict[tuple[str, str], set[str]] = {}
    for case in hook_modes.CASES:
        for effect in case.effects:
            found.setdefault((case.hook, f"{effect.place}: {_effect(effect)}"), set()).update(effect.modes)
    before = ""
    for (hook, what), where in sorted(found.items()):
        if not where:  # on none of the machines that the table is held against
            continue
        yield (hook if hook != before else "", what, *("yes" if mode in where else "no" for mode in columns))
        before = hook


def _effect(effect: hook_modes.Effect) -> str:
    """An effect's name, for a reader: a knob is code, and of a clear it is said that it is one."""
    name = effect.name.split(" ")[0] if effect.name.startswith(("env ", "mount ", "device ")) else effect.name
    return f"`{name}`{' cleared' if effect.name == 'cpuset.cpus' and not effect.value else ''}"
