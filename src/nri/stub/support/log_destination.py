"""The destination of this process's log, which is chosen at the start and opened with the first line.

It is separate from `nri.stub.support.logs`, because importing logging slows down the start. Without a choice nothing is
set up: the plugin then runs in another program, which configures logging itself.
"""

from __future__ import annotations

import sys
from typing import NamedTuple


class Destination(NamedTuple):
    """The arguments for `nri.stub.support.logs.set_up`."""

    level: str = "INFO"
    form: str = "text"
    file: str | None = None
    use_syslog: bool = False


_chosen: list[Destination] = []


def choose(destination: Destination) -> None:
    """Set the destination of this process's log for the next line."""
    _chosen[:] = [destination]


def take() -> Destination | None:
    """The chosen destination at the first call, None later or without a choice. For `nri.stub.support.logs`."""
    return _chosen.pop() if _chosen else None


def is_due() -> bool:
    """Whether the log must be set up now, because the plugin has imported logging and may log without `self.log`."""
    return bool(_chosen) and "logging" in sys.modules
