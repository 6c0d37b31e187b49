"""CPU burst by annotation: microseconds that a container may save up and use above its quota.

A container's burst is refused if it is above the quota, or if the quota is all CPUs anyway. The pod gets the sum of
its containers. Next: `nri.agent.rubik.decisions.quota_turbo`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from nri.agent.rubik.pods import Pod
from nri.policies.formulas import UNLIMITED
from nri.policies.writes import Write

__all__ = ["ANNOTATION", "Quota", "burst_of", "refusal", "writes"]

ANNOTATION: Final = "volcano.sh/quota-burst-time"
_WHOLE: Final = re.compile(r"[+-]?0{0,32}[0-9]{1,19}")


class Quota(NamedTuple):
    """The quota, period and burst in force, in microseconds; None for a file that is not there or says no number."""

    quota: int | None
    period: int | None
    burst: int | None


def burst_of(annotations: Mapping[str, str]) -> int | None:
    """Return the burst that a pod asks for; None if it asks for none. Raises ValueError."""
    text = annotations.get(ANNOTATION, "")
    if not text:
        return None
    value = int(text) if _WHOLE.fullmatch(text) else -1
    if not 0 <= value < 1 << 63:
        raise ValueError(f"{ANNOTATION} {text!r} is not a number of microseconds from 0 on")
    return value


def refusal(burst: int, found: Quota, cpus: int) -> str:
    """Return why a burst cannot be set; "" if it can."""
    if found.quota is None or found.period is None or found.burst is None:
        return "its quota, period or burst cannot be read"
    if found.quota == UNLIMITED:
        return ""
    if found.quota >= found.period * cpus:
        return f"its quota {found.quota} is that of all {cpus} CPUs"
    return f"its quota {found.quota} is less than the burst {burst}" if found.quota < burst else ""


def writes(pod: Pod, burst: int, quota_of: Callable[[str], Quota], cpus: int) -> list[Write]:
    """Return the writes for containers and pod; `quota_of` reads those of a folder."""
    taken = [each.folder for each in pod.containers if not refusal(burst, quota_of(each.folder), cpus)]
    total = burst * len(taken)
    found = [(folder, burst) for folder in taken]
    if not refusal(total, quota_of(pod.folder), cpus):
        found.append((pod.folder, total))
    return [Write(folder, "cpu.cfs_burst", str(value), "quotaBurst") for folder, value in found]
