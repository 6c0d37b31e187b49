"""The wheels, the pure one made from the source archive as a release would be, and a clean environment with each."""

import sys
from pathlib import Path

import pytest

from tests.support.commands import run
from tests.support.needs import need
from tools import compiled

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source archive."""
    folder = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT])
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def compiled_wheel() -> Path:
    """The compiled wheel."""
    need(not compiled.missing(), compiled.missing())
    return compiled.wheel()


@pytest.fixture(scope="session")
def clean_bin(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a new environment that holds the wheel and the locked base requirements, nothing else."""
    return _clean_bin(wheel, tmp_path_factory.mktemp("clean"))


@pytest.fixture(scope="session")
def compiled_bin(compiled_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with the compiled wheel."""
    return _clean_bin(compiled_wheel, tmp_path_factory.mktemp("compiled"))


def _clean_bin(wheel: Path, folder: Path) -> Path:
    run([sys.executable, "-m", "venv", folder])
    pip = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*pip, "--require-hashes", "-r", ROOT / "requirements/base.txt"])
    run([*pip, "--no-deps", wheel])
    return folder / "bin"
