"""Metrics of plugins: the interface `Observer`, and its Prometheus implementation in `nri.metrics.prometheus`.

The adaptation calls an observer after every relayed event, every Synchronize message and every validation. The calls
and their order are those of the reference, so existing dashboards remain valid.
"""

from __future__ import annotations

from nri.metrics.observer import Observer

__all__ = ["Observer"]


def __dir__() -> list[str]:
    return __all__
