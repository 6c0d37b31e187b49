"""Run a command in a test, and show everything it printed if it fails."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path


def run(argv: Sequence[str | Path], **options: object) -> str:
    """Run a command and return what it printed; a failure shows all of it."""
    result = subprocess.run(
        [str(word) for word in argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        **options,  # type: ignore[call-overload]
    )
    assert result.returncode == 0, f"{' '.join(map(str, argv))} ended with {result.returncode}:\n{result.stdout}"
    return str(result.stdout)


def unmeasured() -> dict[str, str]:
    """Our environment for a program in which coverage is not to be, whose modules would be among those it loads."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
