"""The log of a daemon that a verb runs, with the level and format that the global options set."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from nri.stub.support import logs

if TYPE_CHECKING:
    from nri.cli.settings import Settings


def log_to(settings: Settings, level: str) -> None:
    """Log to standard error, at the configured level; -v lowers it to debug, -q raises it to warning."""
    if settings.verbose:
        level = "debug"
    elif settings.quiet:
        level = "warning"
    form = "json" if settings.output == "json" else settings.log_format
    logs.set_up(level.upper(), form)
    for chatty in ("asyncio", "grpc", "httpcore", "httpx"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
