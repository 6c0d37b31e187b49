"""No traceback in a log, and no line of a log that is not one line, while an input is tried."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from nri.stub.support.logs import TextFormatter

__all__ = ["quiet"]


class _Log(logging.Handler):
    """Keeps the lines that have a traceback, or are not fit to be one line: those of plugins as they are written."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(TextFormatter("%(message)s"))
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record) if record.name.startswith("nri.plugin") else record.getMessage()
        if record.exc_info or not text.replace("\n  ", "").isprintable() or len(text) > 4096:
            self.lines.append(f"{text[:2000]!r} {record.exc_info}")


@contextmanager
def quiet() -> Iterator[None]:
    """See that nothing with a traceback, and no line that is not one, is logged."""
    log, logger = _Log(), logging.getLogger("nri")
    disabled, propagate, level = logging.root.manager.disable, logger.propagate, logger.level
    logging.disable(logging.NOTSET)
    logger.addHandler(log)
    logger.propagate = False
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(log)
        logger.propagate = propagate
        logger.setLevel(level)
        logging.disable(disabled)
    assert not log.lines, log.lines
