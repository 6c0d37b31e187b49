"""Lists of CPUs in decisions. A list is parsed once for all containers of a pod, and refused if it is too long.

The author of a pod can write a short list, `0-65535`, that would become many thousand numbers for each container.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from nri import host
from nri.agent.model import CPUS
from nri.api import cpuset
from nri.host.cgroups.units import Value
from nri.text import plain

#: The maximum number of CPUs of a Linux kernel.
MAX_CPUS: Final = 8192
#: The maximum length of a list in characters; 8192 single numbers fit.
_MAX_TEXT: Final = 1 << 16


@lru_cache(maxsize=16)
def cpus(text: str) -> tuple[frozenset[int], str]:
    """Return the CPUs of a list, and "". For a list that no kernel accepts, return no CPUs and the reason."""
    if len(text) > _MAX_TEXT:
        return frozenset(), f"the list of CPUs has {len(text)} characters; the limit is {_MAX_TEXT}"
    try:
        cpu_set = cpuset.parse(text)
    except ValueError as error:
        return frozenset(), plain(str(error))
    if len(cpu_set) > MAX_CPUS:
        return frozenset(), f"the list has {len(cpu_set)} CPUs; the limit is {MAX_CPUS}"
    return cpu_set, ""


def value_of(knob: str, text: str) -> Value:
    """Parse the value of a knob. Raises KeyError if the knob is unknown, and ValueError if the value is malformed."""
    if knob != CPUS:
        return host.knob(knob).parse(text)
    cpu_set, reason = cpus(text)
    if reason:
        raise ValueError(reason)
    return cpu_set
