"""The systemd unit of the engine, made of its template for the interpreter of this installation."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from nri.cli.support.scaffold import fill

TEMPLATE = Path(__file__).with_name("nri-engine.service.txt")


def unit_text(python: str = sys.executable) -> str:
    """The text of the unit. `python` runs the engine; a blank in its path is quoted, and a percent sign doubled."""
    command = shlex.quote(python).replace("%", "%%")
    return fill(TEMPLATE.read_text(encoding="utf-8"), {"python": command})
