"""Run the engine as a program until a signal."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from nri.engine.check import missing_parts
from nri.engine.daemon import Daemon
from nri.errors import NriError
from nri.service.daemon import run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.config.settings import Loaded
    from nri.engine.config import EngineConfig
    from nri.interfaces import Reporter

_log = logging.getLogger("nri.engine")


def serve(loaded: Loaded[EngineConfig], reporters: Sequence[Reporter] = ()) -> int:
    """Run the engine until a signal; returns the exit code. NriError if it cannot start."""
    config = loaded.settings
    if os.geteuid() != 0 and not config.dry:
        raise NriError("the engine requires root. Run it with sudo, or with --dry DIR to run nothing")
    for note in loaded.notes:
        _log.warning("%s", note)
    _log.info("settings: %s", ", ".join(loaded.files) or "defaults, because there is no /etc/nri/engine.toml")
    for row in missing_parts(config):
        _log.warning("%s: %s. %s", row.what, row.found, row.next)
    return run(
        "the engine",
        lambda observer: Daemon(config, observer=observer, reporters=reporters),
        config.http.address,
        _log,
        ". try: nri engine check",
    )
