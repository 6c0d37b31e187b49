"""The destination of this process's log: chosen when a program starts, made with the first line.

Kept apart from `nri.stub.support.logs`, which loads logging, and that costs a start more than everything here. Rules:
without a choice nothing is set up, because then the plugin is a guest in another program, whose own logging counts. A
plugin that has loaded logging by itself may log past `self.log`: then there is nothing to save, and the log is made at
once.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

__all__ = ["Destination", "choose", "is_due", "take"]


class Destination(NamedTuple):
    """The arguments that `nri.stub.support.logs.set_up` is called with."""

    level: str = "INFO"
    form: str = "text"
    file: str | None = None
    use_syslog: bool = False


_chosen: list[Destination] = []


def choose(destination: Destination) -> None:
    """Remember where the log of this process is to go, from the next line on."""
    _chosen[:] = [destination]


def take() -> Destination | None:
    """Return what was chosen, the first time; None afterwards, and if nothing was. For `nri.stub.support.logs`."""
    return _chosen.pop() if _chosen else None


def is_due() -> bool:
    """Whether the log has to be made now: the process has loaded logging, so its lines need not come by `self.log`."""
    return bool(_chosen) and "logging" in sys.modules
