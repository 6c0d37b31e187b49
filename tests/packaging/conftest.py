"""One wheel, made from the source archive as a release would be, and one clean environment with it."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(argv: Sequence[str | Path], **options: object) -> str:
    """Run a command and return what it printed; a failure shows all of it."""
    done = subprocess.run(
        [str(word) for word in argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        **options,  # type: ignore[call-overload]
    )
    assert done.returncode == 0, f"{' '.join(map(str, argv))} ended with {done.returncode}:\n{done.stdout}"
    return str(done.stdout)


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
