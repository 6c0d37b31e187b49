"""Run the engine as a program until a signal arrives."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from nri.engine.check import missing_parts
from nri.engine.daemon import Daemon
from nri.errors import NriError
from nri.service.daemon import run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nri.config.settings import LoadedSettings
    from nri.engine.config import EngineConfig
    from nri.interfaces import Reporter

_log = logging.getLogger("nri.engine")


def serve(
    loaded: LoadedSettings[EngineConfig],
    reporters: Sequence[Reporter] = (),
    load: Callable[[], LoadedSettings[EngineConfig]] | None = None,
    on_change: Callable[[EngineConfig], object] = lambda _: None,
) -> int:
    """Run the engine until a signal arrives, and return the exit code. Raises NriError if the engine cannot start.

    SIGHUP reads the settings again by `load`, and `on_change` is called with the adopted settings.
    """
    config = loaded.settings
    if os.geteuid() != 0 and not config.dry:
        raise NriError("the engine requires root. Run it with sudo, or with --dry DIR, which runs no containers")
    for note in loaded.notes:
        _log.warning("%s", note)
    _log.info("settings: %s", ", ".join(loaded.files) or "defaults, because there is no /etc/nri/engine.toml")
    for row in missing_parts(config):
        _log.warning("%s: %s. %s", row.what, row.found, row.next)
    return run(
        "the engine",
        lambda observer: Daemon(config, observer=observer, reporters=reporters, load=load, on_change=on_change),
        config.http.address,
        _log,
        ". try: nri engine check",
        on_hangup=_reload,
    )


def _reload(daemon: Daemon) -> None:
    """Reload the settings. Mistakes are in the log."""
    with suppress(NriError):
        daemon.reloader.reload()
