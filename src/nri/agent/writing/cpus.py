"""Lists of CPUs that were decided, read once for all containers of a pod, and refused if no machine has as many.

A pod's author writes a few characters, `0-65535`, and they would be tens of thousands of numbers for each container.
Next: `nri.agent.executor`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from nri import host
from nri.agent.model import CPUS
from nri.api import cpuset
from nri.host.cgroups.units import Value
from nri.text import plain

__all__ = ["MOST_CPUS", "cpus", "value_of"]

#: Kernels are built for no more.
MOST_CPUS: Final = 8192
#: A list is no longer than that, in characters; 8192 single numbers are.
_MOST_TEXT: Final = 1 << 16


@lru_cache(maxsize=16)
def cpus(text: str) -> tuple[frozenset[int], str]:
    """Return the CPUs of a list; none of them, and why, for one that no kernel takes."""
    if len(text) > _MOST_TEXT:
        return frozenset(), f"a list of CPUs of {len(text)} characters"
    try:
        found = cpuset.parse(text)
    except ValueError as error:
        return frozenset(), plain(str(error))
    if len(found) > MOST_CPUS:
        return frozenset(), f"it names {len(found)} CPUs, and no machine has more than {MOST_CPUS}"
    return found, ""


def value_of(knob: str, text: str) -> Value:
    """Return the value of a knob that a text says. Raises KeyError for a name that is no knob's, and ValueError."""
    if knob != CPUS:
        return host.knob(knob).parse(text)
    found, reason = cpus(text)
    if reason:
        raise ValueError(reason)
    return found
