"""Counters of processors' events with values that a test chooses, in place of those of the kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from nri.agent.rubik import event_counts as module
from nri.host import Unsupported
from nri.host.perf import Event

__all__ = ["Counted", "counting"]


class Counted:
    """A machine's counters.

    Args:
        events: what each cgroup's counters say.
        missing_keys: why there are none.

    Attributes:
        open: how many cgroups are counted.
        error: raised when a cgroup is to be counted, or a counter is read.
    """

    def __init__(self, events: Mapping[Event, int], missing_keys: Unsupported | None = None) -> None:
        self.events, self.lacking, self.open = dict(events), missing_keys, 0
        self.folders: list[str] = []
        self.error: OSError | Unsupported | None = None

    def count(self, _hierarchies: Any, _root: Any, cgroup: str, *_: Any) -> Any:
        """Begin to count."""
        if isinstance(self.error, OSError):
            raise self.error
        if self.error is not None:
            return self.error
        self.open += 1
        self.folders.append(cgroup)
        return self

    def read(self) -> dict[Event, int]:
        """What was counted."""
        if isinstance(self.error, OSError):
            raise self.error
        return dict(self.events)

    def close(self) -> None:
        """Count one cgroup less."""
        self.open -= 1


def counting(monkeypatch: pytest.MonkeyPatch, counted: Counted) -> None:
    """Have services count by these."""
    monkeypatch.setattr(module, "probe_events", lambda _events: counted.lacking)
    monkeypatch.setattr(module, "start_counters", counted.count)
