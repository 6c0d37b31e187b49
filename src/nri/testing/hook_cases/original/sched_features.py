"""The file `sched_features`, and whether it, or a sysctl, tells of core scheduling.

Next: `nri.testing.hook_cases.original.schemata_file`.
"""

from __future__ import annotations

from collections.abc import Mapping

from nri.policies.koordinator.kernel.sched import OFF, core_sched

__all__ = ["core_sched_supported", "features", "features_to_write"]


def features(text: str) -> dict[str, bool]:
    """Read `sched_features`. Raises ValueError if a feature is on and off at once."""
    found: dict[str, bool] = {}
    for word in text.split():
        name, on = word.removeprefix(OFF), not word.startswith(OFF)
        if found.setdefault(name, on) != on:
            raise ValueError(f"feature {name} is on and off at once")
    return found


def features_to_write(current: Mapping[str, bool], wanted: Mapping[str, bool]) -> list[str]:
    """Return the words to write, one at a time, so that features are as wanted."""
    return [f"{'' if on else OFF}{name}" for name, on in wanted.items() if current.get(name) is not on]


def core_sched_supported(sysctl: str | None, feature_text: str | None) -> tuple[bool, str]:
    """Return whether the kernel knows core scheduling by a file, and which or why not, in the original's words."""
    if sysctl is not None:
        return True, "sysctl supported"
    if feature_text is None:
        return False, "file not exist"
    if core_sched(None, feature_text).possible:
        return True, "sched_features supported"
    return False, "not supported neither by sysctl nor by sched_features"
