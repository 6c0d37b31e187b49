"""The systemd unit of the engine."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

_UNIT = Path(__file__).with_name("nri-engine.service.txt")


def unit_text(python: str = sys.executable) -> str:
    """The text of the unit. `python` runs the engine; a blank in its path is quoted, and a percent sign doubled."""
    return _UNIT.read_text(encoding="utf-8").replace("@python@", shlex.quote(python).replace("%", "%%"))
