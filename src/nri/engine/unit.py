"""The systemd unit of the engine."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

_UNIT = Path(__file__).with_name("nri-engine.service.txt")


def unit_text(python: str = sys.executable) -> str:
    """Return the unit, which runs the engine with the interpreter `python`.

    Spaces in the interpreter's path are quoted, and percent signs doubled, as systemd requires.
    """
    return _UNIT.read_text(encoding="utf-8").replace("@python@", shlex.quote(python).replace("%", "%%"))
