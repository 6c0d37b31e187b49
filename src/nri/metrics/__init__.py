"""Measurements of plugins: the calls of `Observer`, and their Prometheus form in `nri.metrics.prometheus`.

The adaptation calls an observer after every relayed event, every Synchronize message and every validation. The calls
and their order are those of the reference, so dashboards made for it keep their meaning.
"""

from __future__ import annotations

from nri.metrics.observer import Observer

__all__ = ["Observer"]


def __dir__() -> list[str]:
    return __all__
