"""The metrics of a collector as Prometheus reads them."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, generate_latest


def scrape(collector: Any) -> str:
    """The text of one scrape."""
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry).decode()
