"""The two switches of the scheduler that exclude each other: group identity and core scheduling, one on, one off.

The plan of the agent's `nri.host.set_switch` and `set_features` over the texts of a case's files, as the original words
it. The other one is switched off first. The writes come back in order; a switch that is wanted and not there is
an error. Anolis has core scheduling as a sysctl (`kernel.sched_core`) or, before, as a feature of `sched_features`;
mainline kernels since 5.14 have it built in, which only prctl tells. Group identities are a sysctl of Anolis. Next:
`tests.hook_cases.tree`.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "CORE_SCHED", "FEATURES", "GROUP_IDENTITY", "CoreSched", "Switches", "core_sched", "for_core_sched",
    "for_group_identity",
]  # fmt: skip

#: Names of the switches: two sysctls, and the scheduler's feature file.
GROUP_IDENTITY, CORE_SCHED, FEATURES = "kernel.sched_group_identity_enabled", "kernel.sched_core", "sched_features"
CORE_FEATURE = "CORE_SCHED"
#: The mark before the name of a feature that is off.
OFF = "NO_"


class Switches(NamedTuple):
    """The writes of a switch, and why the wanted switch cannot be had ("" if it can)."""

    writes: tuple[tuple[str, str], ...] = ()
    error: str = ""


class CoreSched(NamedTuple):
    """The way in which core scheduling is switched on here; both empty if it is on already or cannot be."""

    possible: bool
    sysctl: bool = False
    feature: bool = False


def core_sched(sysctl: str | None, feature_text: str | None) -> CoreSched:
    """Return how to switch core scheduling on, from the files' texts, None for a file that is not there."""
    if sysctl is not None and sysctl.strip() in ("0", "1"):
        return CoreSched(True, sysctl=sysctl.strip() == "0")
    words = (feature_text or "").split()
    if CORE_FEATURE in words or OFF + CORE_FEATURE in words:
        on = next(word for word in words if word.endswith(CORE_FEATURE)) == CORE_FEATURE
        return CoreSched(True, feature=not on)
    return CoreSched(False)


def for_group_identity(identity: str | None, core: str | None, *, identity_known: bool, core_known: bool) -> Switches:
    """Switch group identity on.

    Args:
        identity: text of its sysctl, None if it cannot be read.
        core: text of core scheduling's sysctl, likewise.
        identity_known: whether the kernel has the first sysctl; without it identities hold always.
        core_known: whether the kernel has the second one.
    """
    if not identity_known:
        return Switches()
    writes: list[tuple[str, str]] = []
    if core_known:
        if _bit(core) is None:
            return Switches(error=f"{CORE_SCHED} cannot be read")
        writes += [(CORE_SCHED, "0")] if _bit(core) != 0 else []
    if _bit(identity) is None:
        return Switches(tuple(writes), f"{GROUP_IDENTITY} cannot be read")
    writes += [(GROUP_IDENTITY, "1")] if _bit(identity) != 1 else []
    return Switches(tuple(writes))


def for_core_sched(
    identity: str | None, core: str | None, features: str | None, *, identity_known: bool, built_in: bool = False
) -> Switches:
    """Switch core scheduling on; `built_in` is a mainline kernel that has it without a switch."""
    writes: list[tuple[str, str]] = []
    if identity_known:
        if _bit(identity) is None:
            return Switches(error=f"{GROUP_IDENTITY} cannot be read")
        writes += [(GROUP_IDENTITY, "0")] if _bit(identity) != 0 else []
    if built_in:
        return Switches(tuple(writes))
    how = core_sched(core, features)
    if not how.possible:
        return Switches(tuple(writes), "core sched not supported")
    writes += [(CORE_SCHED, "1")] if how.sysctl else [(FEATURES, f"{CORE_FEATURE}\n")] if how.feature else []
    return Switches(tuple(writes))


def _bit(text: str | None) -> int | None:
    stripped = (text or "").strip(" \n")
    return int(stripped) if stripped.lstrip("-").isdigit() else None
