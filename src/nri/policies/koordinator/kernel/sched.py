"""Switches of the scheduler: `sched_features`, and the two sysctls that exclude each other.

Anolis has core scheduling as a sysctl (`kernel.sched_core`) or, before, as a feature; mainline kernels since 5.14 have
it built in, which only prctl tells. Group identities are a sysctl of Anolis. Next:
`nri.policies.koordinator.kernel.schemata`.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["CORE_FEATURE", "OFF", "CoreSched", "core_sched"]

CORE_FEATURE = "CORE_SCHED"
#: Stands before the name of a feature that is off.
OFF = "NO_"


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
