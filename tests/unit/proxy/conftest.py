"""Fixtures: a proxy in front of a dry engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.proxied import Proxied


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Proxied]:
    """A runtime and a proxy that run."""
    made = Proxied(tmp_path)
    try:
        made.start_runtime()
        made.start()
        yield made
    finally:
        made.close()
