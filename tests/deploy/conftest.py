"""The project that `nri new` makes, for trying it with the real tools that would deploy it."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.base import lay_out
from tests.deploy.buildah import Buildah
from tests.support.commands import run
from tests.support.needs import need_root, need_tool


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `nri new pod-name` makes."""
    folder = tmp_path_factory.mktemp("new") / "pod-name"
    run([sys.executable, "-m", "nri.cli.main", "new", "pod-name", "--folder", folder])
    return folder


@pytest.fixture(scope="session")
def complete(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with the wheels of all its other dependencies beside that of nri, as its README says."""
    folder = tmp_path_factory.mktemp("complete") / "pod-name"
    shutil.copytree(project, folder)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    run([*pip, "--dest", "wheels", "--find-links", "wheels", ".", "hatchling>=1.26"], cwd=folder)
    return folder


@pytest.fixture(scope="session")
def buildah() -> Iterator[Buildah]:
    """buildah, with the base image in its store."""
    need_root()
    need_tool("buildah")
    with tempfile.TemporaryDirectory(prefix="nri-buildah-", dir="/tmp") as folder:
        tool = Buildah(Path(folder))
        base = Path(folder, "base")
        lay_out(base)
        container = tool("from", "scratch").splitlines()[-1]
        tool("copy", "--quiet", container, base, "/")
        tool("config", "--env", "PATH=/usr/local/bin:/usr/bin:/bin", container)
        tool("commit", "--quiet", container, "nri-base")
        yield tool
