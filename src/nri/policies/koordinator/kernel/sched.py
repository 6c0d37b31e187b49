"""Switches of the scheduler: `sched_features`, and the two sysctls that exclude each other.

Anolis has core scheduling as a sysctl (`kernel.sched_core`) or, before, as a feature; mainline kernels since 5.14 have
it built in, which only prctl tells. Group identities are a sysctl of Anolis. Next:
`nri.policies.koordinator.kernel.cpu_flags`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["CORE_FEATURE", "CoreSched", "core_sched", "core_sched_supported", "features", "features_to_write"]

CORE_FEATURE = "CORE_SCHED"
_OFF = "NO_"


class CoreSched(NamedTuple):
    """How core scheduling is switched on here; both empty if it is on already or cannot be."""

    possible: bool
    sysctl: bool = False
    feature: bool = False


def features(text: str) -> dict[str, bool]:
    """Read `sched_features`. Raises ValueError if a feature is on and off at once."""
    found: dict[str, bool] = {}
    for word in text.split():
        name, on = word.removeprefix(_OFF), not word.startswith(_OFF)
        if found.setdefault(name, on) != on:
            raise ValueError(f"feature {name} is on and off at once")
    return found


def features_to_write(current: Mapping[str, bool], wanted: Mapping[str, bool]) -> list[str]:
    """Return the words to write, one at a time, so that features are as wanted."""
    return [f"{'' if on else _OFF}{name}" for name, on in wanted.items() if current.get(name) is not on]


def core_sched(sysctl: str | None, feature_text: str | None) -> CoreSched:
    """Return how to switch core scheduling on, from the files' texts, None for a file that is not there."""
    if sysctl is not None and sysctl.strip() in ("0", "1"):
        return CoreSched(True, sysctl=sysctl.strip() == "0")
    words = (feature_text or "").split()
    if CORE_FEATURE in words or _OFF + CORE_FEATURE in words:
        on = next(word for word in words if word.endswith(CORE_FEATURE)) == CORE_FEATURE
        return CoreSched(True, feature=not on)
    return CoreSched(False)


def core_sched_supported(sysctl: str | None, feature_text: str | None) -> tuple[bool, str]:
    """Return whether the kernel knows core scheduling by a file, and which or why not, in the original's words."""
    if sysctl is not None:
        return True, "sysctl supported"
    if feature_text is None:
        return False, "file not exist"
    if core_sched(None, feature_text).possible:
        return True, "sched_features supported"
    return False, "not supported neither by sysctl nor by sched_features"
