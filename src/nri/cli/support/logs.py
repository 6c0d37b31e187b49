"""The log of a daemon that a verb runs: the level and the form that the global options ask for."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from nri.stub.support import logs

if TYPE_CHECKING:
    from nri.cli.settings import Settings

__all__ = ["log_to"]


def log_to(settings: Settings, level: str) -> None:
    """Log to standard error: the level of the configuration, or more with -v, or less with -q."""
    if settings.verbose:
        level = "debug"
    elif settings.quiet:
        level = "warning"
    form = "json" if settings.output == "json" else settings.log_format
    logs.set_up(level.upper(), form)
    for chatty in ("asyncio", "grpc", "httpcore", "httpx"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
