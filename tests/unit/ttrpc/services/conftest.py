"""A socket's path, and a client of the tests' service with streams."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.ttrpc import Client, Server, Service
from tests.support.streams import DESCRIPTOR, Streams


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "s.sock")


@pytest.fixture
def client(path: str) -> Iterator[Client]:
    with Server(path, [Service.of(DESCRIPTOR, Streams())]), Client.connect(path) as client:
        yield client
