"""The project that `nri new` makes, for trying it with the real tools that would deploy it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.buildah import Buildah, buildah_with_base
from tests.support.commands import run


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `nri new pod-name` makes."""
    folder = tmp_path_factory.mktemp("new") / "pod-name"
    run([sys.executable, "-m", "nri", "new", "pod-name", "--folder", folder])
    return folder


@pytest.fixture(scope="session")
def complete(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with the wheels of nri and of all its other dependencies, as its README describes."""
    folder = tmp_path_factory.mktemp("complete") / "pod-name"
    shutil.copytree(project, folder)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    run([*pip, "--dest", "wheels", "--find-links", "wheels", ".", "hatchling>=1.26"], cwd=folder)
    return folder


@pytest.fixture(scope="session")
def buildah() -> Iterator[Buildah]:
    """buildah, with the base image in its store."""
    with buildah_with_base() as tool:
        yield tool
