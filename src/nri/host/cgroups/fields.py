"""The fields of NRI's LinuxResources and the files of cgroup v2 by which a message sets each knob."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from nri.host.cgroups.knobs import KNOBS, Place, knob

#: The field of NRI's LinuxResources for each knob. Huge pages and `unified` are separate lists.
FIELDS: Final[Mapping[str, str]] = {
    "cpu.shares": "cpu.shares",
    "cpu.cfs_quota": "cpu.quota",
    "cpu.cfs_period": "cpu.period",
    "cpu.realtime_runtime": "cpu.realtime_runtime",
    "cpu.realtime_period": "cpu.realtime_period",
    "cpuset.cpus": "cpu.cpus",
    "cpuset.mems": "cpu.mems",
    "memory.limit": "memory.limit",
    "memory.soft_limit": "memory.reservation",
    "memory.and_swap_limit": "memory.swap",
    "memory.kernel_limit": "memory.kernel",
    "memory.kernel_tcp_limit": "memory.kernel_tcp",
    "memory.swappiness": "memory.swappiness",
    "memory.oom_killer_off": "memory.disable_oom_killer",
    "memory.use_hierarchy": "memory.use_hierarchy",
    "pids.limit": "pids.limit",
    "blockio_class": "blockio_class",
    "rdt_class": "rdt_class",
}
#: The prefix of the names of knobs for huge pages, which a message lists by page size.
HUGE_PAGES: Final = "hugetlb."


@lru_cache(maxsize=256)
def unified_place(name: str) -> Place | None:
    """Return the file of cgroup v2 by which `unified` can set a knob. Returns None if NRI has a field for the knob.

    Also returns None if the knob has several possible files, or a line for each device.
    """
    if name in FIELDS or name.startswith(HUGE_PAGES):
        return None
    try:
        places = knob(name).v2
    except KeyError:
        return None
    return places[0] if len(places) == 1 and not places[0].codec.by_device else None


@lru_cache(maxsize=256)
def knob_of_file(file: str) -> str:
    """Return the knob of a file of cgroup v2. Returns "" if there is no knob for it."""
    return next((name for name in KNOBS if (place := unified_place(name)) is not None and place.file == file), "")
