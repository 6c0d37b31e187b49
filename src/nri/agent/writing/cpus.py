"""Lists of CPUs in decisions: parsed once for all containers of a pod, and refused if no machine has that many.

A pod's author can write a short text, `0-65535`, that would become tens of thousands of numbers for each container.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from nri import host
from nri.agent.model import CPUS
from nri.api import cpuset
from nri.host.cgroups.units import Value
from nri.text import plain

__all__ = ["MAX_CPUS", "cpus", "value_of"]

#: Kernels are built for no more.
MAX_CPUS: Final = 8192
#: A list is no longer than that, in characters; 8192 single numbers are.
_MAX_TEXT: Final = 1 << 16


@lru_cache(maxsize=16)
def cpus(text: str) -> tuple[frozenset[int], str]:
    """Return the CPUs of a list; for a list that no kernel accepts none, with the reason."""
    if len(text) > _MAX_TEXT:
        return frozenset(), f"a list of CPUs of {len(text)} characters"
    try:
        cpu_set = cpuset.parse(text)
    except ValueError as error:
        return frozenset(), plain(str(error))
    if len(cpu_set) > MAX_CPUS:
        return frozenset(), f"{len(cpu_set)} CPUs; the limit is {MAX_CPUS}"
    return cpu_set, ""


def value_of(knob: str, text: str) -> Value:
    """Return the value of a knob from its text. Raises KeyError for an unknown knob, and ValueError."""
    if knob != CPUS:
        return host.knob(knob).parse(text)
    cpu_set, reason = cpus(text)
    if reason:
        raise ValueError(reason)
    return cpu_set
