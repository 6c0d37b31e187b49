"""One wheel, made from the source archive as a release would be, and one clean environment with it."""

import sys
from pathlib import Path

import pytest

from tests.support.commands import run

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source archive."""
    folder = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT])
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def clean_bin(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a new environment that holds the wheel and the locked base requirements, nothing else."""
    folder = tmp_path_factory.mktemp("clean")
    run([sys.executable, "-m", "venv", folder])
    pip = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*pip, "--require-hashes", "-r", ROOT / "requirements/base.txt"])
    run([*pip, "--no-deps", wheel])
    return folder / "bin"
