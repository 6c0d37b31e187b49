"""Programs of the machine's network, run by their list of words, never by a shell.

Rules: each has a deadline and is killed at it; what it says is cut. A program that is not installed is
:class:`~nri.host.Unsupported` with its name. Next: :mod:`nri.agent.profiles.koordinator.traffic.plan`.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from nri.host import Unsupported
from nri.text import plain

__all__ = ["Ran", "Run", "missing", "run"]

#: How long a program may run, in seconds.
TIMEOUT_S: Final = 10.0
_MOST_SHOWN: Final = 300


class Ran(NamedTuple):
    """The end of a program: its exit code, 0 is well, and what it wrote."""

    code: int
    out: str = ""
    error: str = ""


#: Runs a list of words with a text as input.
Run = Callable[[Sequence[str], str], Ran]


def missing(*programs: str) -> Unsupported | None:
    """The reason why not all of these can be run; None if they can."""
    absent = [program for program in programs if shutil.which(program) is None]
    return Unsupported(f"{' and '.join(absent)}: not installed") if absent else None


def run(argv: Sequence[str], text: str = "") -> Ran:
    """Run a program to its end. One that cannot be run, or not in time, has ended badly; nothing is raised."""
    try:
        done = subprocess.run(  # noqa: S603  a list of words; texts of pods in it are addresses that were parsed
            list(argv), input=text, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return Ran(-1, error=f"{argv[0]} did not end within {TIMEOUT_S:g} s")
    except OSError as error:
        return Ran(-1, error=f"{argv[0]}: {error.strerror or error}")
    return Ran(done.returncode, done.stdout, plain(done.stderr.strip(), _MOST_SHOWN))
