"""A machine of each test's own; what a test leaves on it fails the test."""

from collections.abc import Iterator

import pytest

from tests.engine.machine import Machine


@pytest.fixture
def machine() -> Iterator[Machine]:
    made = Machine()
    try:
        yield made
    finally:
        made.close()
