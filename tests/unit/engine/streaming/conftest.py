"""A streaming server of each test's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.stream_world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    before = len(os.listdir("/proc/self/fd"))
    world_ = World(tmp_path)
    try:
        yield world_
    finally:
        world_.close()
    assert len(os.listdir("/proc/self/fd")) <= before, "descriptors were left open"
