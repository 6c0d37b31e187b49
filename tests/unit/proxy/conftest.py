"""Fixtures: a proxy in front of a dry engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.proxied import Proxied


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Proxied]:
    """A runtime and a proxy that run; what is done around the proxy it finds only by calls.

    Its comparison of records and runtime, which comes at some moment after the connection, is over: tests of it start
    a proxy of their own.
    """
    proxied = Proxied(tmp_path)
    try:
        proxied.start_runtime()
        proxied.start().reconciler.stop()
        yield proxied
    finally:
        proxied.close()
