"""The CPU's abilities with cache and memory bandwidth, from `/proc/cpuinfo` and the kernel's command line.

Next: `nri.testing.hook_cases.original.folder_names`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["Allocation", "by_command_line", "by_flags", "flags", "vendor", "vendor_known"]

#: Vendors whose allocation files are known; HiSilicon is ARM's MPAM.
_VENDORS = frozenset({"GenuineIntel", "AuthenticAMD", "HiSilicon"})


class Allocation(NamedTuple):
    """Whether shares of the cache (`cat`) and of the memory bandwidth (`mba`) can be given."""

    cat: bool
    mba: bool


def flags(cpuinfo: str) -> frozenset[str]:
    """Return the CPU's flags."""
    return frozenset(word for line in cpuinfo.splitlines() if "flags" in line for word in line.split(" "))


def by_flags(cpuinfo: str) -> Allocation:
    """Return what the CPU's flags say."""
    found = flags(cpuinfo)
    return Allocation("cat_l3" in found, "mba" in found)


def by_command_line(text: str) -> Allocation:
    """Return what the kernel was told with `rdt=`."""
    return Allocation(
        bool(re.search(r" rdt=[^\n]*l3cat", text)),
        bool(re.search(r" rdt=[^\n]*mba", text)),
    )


def vendor(cpuinfo: str) -> str:
    """Return the CPU's vendor; `unknown` if the file does not say."""
    for line in cpuinfo.splitlines():
        parts = line.split(":")
        if "vendor_id" in line and len(parts) > 1:
            return parts[1].strip()
    return "unknown"


def vendor_known(name: str) -> bool:
    """Whether a vendor's CPUs can share out cache and memory bandwidth."""
    return name in _VENDORS
