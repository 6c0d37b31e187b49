"""The project that `nri new` makes, for trying it with the real tools that would deploy it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest


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
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `nri new pod-name` makes."""
    folder = tmp_path_factory.mktemp("new") / "pod-name"
    run([sys.executable, "-m", "nri.cli.main", "new", "pod-name", "--folder", folder])
    return folder
