"""The engine as a program: its log, its ready message, signals, systemd, and its end. The agent's program shares these.

Next: `nri.engine.daemon`.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from typing import TYPE_CHECKING

from nri.cli.errors import FAILED, INTERRUPTED, Failure
from nri.cri.client import INSTALL
from nri.stub.program.health import notify
from nri.stub.program.stop import LOOK_UP_S
from nri.stub.support import logs

if TYPE_CHECKING:
    from types import FrameType

    from nri.cli.settings import Settings
    from nri.engine.config import LoadedConfig

_log = logging.getLogger("nri.engine")

#: A second signal while the engine stops ends it at once, with this code.
_AT_ONCE = 1


class Signals:
    """SIGTERM, SIGHUP and SIGINT as one event; the first one counts, a second one ends the process."""

    def __init__(self) -> None:
        self.first = 0
        self._came = threading.Event()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, self._take)

    def _take(self, number: int, _: FrameType | None) -> None:
        if self.first:
            os._exit(_AT_ONCE)
        self.first = number
        self._came.set()

    def wait(self) -> int:
        """Wait for one, and return its number."""
        while not self._came.wait(LOOK_UP_S):
            pass  # one that came in the instant before the wait has its handler run now
        return self.first


def serve(settings: Settings, loaded: LoadedConfig) -> int:
    """Run the engine until a signal; returns the exit code. Raises Failure if it cannot start."""
    config = loaded.config
    log_to(settings, config.log_level)
    if os.geteuid() != 0 and not config.dry:
        raise Failure("the engine needs root: containers need it. Run it with sudo, or with --dry DIR, to run nothing")
    for note in loaded.notes:
        _log.warning("%s", note)
    _log.info("settings: %s", ", ".join(loaded.files) or "defaults, for there is no /etc/nri/engine.toml")
    try:
        from nri.engine.check import lacking
        from nri.engine.daemon import Daemon
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "nri":
            raise
        raise Failure(f"the engine needs {error.name}, which is not installed. Install the extra: {INSTALL}") from None
    from nri.errors import NriError

    for row in lacking(config):
        _log.warning("%s: %s. %s", row.what, row.found, row.next)
    signals = Signals()
    try:
        daemon = Daemon(config)
        daemon.start()
    except (NriError, OSError) as error:
        raise Failure(f"the engine cannot start: {error}. try: nri engine check", FAILED) from error
    try:
        if not signals.first:
            _log.info("ready: %s", daemon.describe())
            notify("READY=1")
        number = signals.wait()
        _log.info("stopping after %s; containers run on", signal.Signals(number).name)
        notify("STOPPING=1")
    finally:
        daemon.stop()
    _log.info("stopped")
    return INTERRUPTED if number == signal.SIGINT else 0


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
