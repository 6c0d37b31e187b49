"""Metrics of plugins: the interface `Observer`, and `nri.metrics.prometheus`, which implements it.

The adaptation calls an observer after every relayed event, every Synchronize message and every validation. It makes the
same calls in the same order as the Go library, so existing dashboards remain valid.
"""

from __future__ import annotations

from nri.metrics.observer import Observer

__all__ = ["Observer"]


def __dir__() -> list[str]:
    return __all__
