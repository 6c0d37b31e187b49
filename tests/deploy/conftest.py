"""The project that `nri new` makes, for trying it with the real tools that would deploy it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.commands import run


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `nri new pod-name` makes."""
    folder = tmp_path_factory.mktemp("new") / "pod-name"
    run([sys.executable, "-m", "nri.cli.main", "new", "pod-name", "--folder", folder])
    return folder
