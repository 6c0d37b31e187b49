"""A runtime's files below a root folder of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.support.rooted import below


@pytest.fixture
def put(tmp_path: Path) -> Callable[..., str]:
    """Write files below the root; gives the root."""
    return partial(below, tmp_path)
