"""Read the settings of a running engine again, and adopt what can change without a restart."""

from __future__ import annotations

import datetime as dt
import logging
import threading
from collections.abc import Callable
from typing import Any

from nri.config.complaint import single_errors
from nri.config.settings import LoadedSettings
from nri.engine.config import EngineConfig
from nri.engine.config.changes import Changes, compare_settings
from nri.engine.engine import Engine
from nri.engine.support.errors import EngineError
from nri.errors import ConfigError, NriError

_log = logging.getLogger(__name__)


class Reloader:
    """Reloads the settings of an engine. Thread-safe.

    Args:
        engine: the main engine; its domains adopt the settings, too.
        load: reads the settings from the sources of the engine's start; None if there are no such sources.
        on_change: called with the adopted settings.

    Attributes:
        last: the outcome of the last reload, as Status reports it; {} before the first reload.
    """

    def __init__(
        self,
        engine: Engine,
        load: Callable[[], LoadedSettings[EngineConfig]] | None,
        on_change: Callable[[EngineConfig], object] = lambda _: None,
    ) -> None:
        self._engine, self._load, self._on_change = engine, load, on_change
        self._lock = threading.Lock()
        self.last: dict[str, Any] = {}

    def reload(self) -> None:
        """Adopt the settings as the files have them now. An invalid file changes nothing, and is logged.

        Raises EngineError with all mistakes.
        """
        with self._lock:
            now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
            try:
                changes = self._adopt()
            except (NriError, ValueError, OSError) as error:
                problems = [str(e) for e in single_errors(error)] if isinstance(error, ConfigError) else [str(error)]
                for problem in problems:
                    _log.error("reload: %s; the previous settings stay in force", problem)
                self.last = {"time": now, "error": "; ".join(problems)}
                raise EngineError(f"{self.last['error']}; the previous settings stay in force") from error
            self.last = {"time": now, "adopted": changes.adopted, "deferred": changes.deferred}
        _log.info("reload: changed settings: %s", ", ".join(changes.adopted) or "none")
        if changes.deferred:
            _log.warning("reload: these settings require a restart of the engine: %s", ", ".join(changes.deferred))

    def _adopt(self) -> Changes:
        if self._load is None:
            raise EngineError("this engine was started without sources of settings, so it cannot be reloaded")
        loaded = self._load()
        changes = compare_settings(self._engine.config, loaded.settings)
        self._engine.configure(changes.config)
        self._on_change(changes.config)
        for note in loaded.notes:
            _log.warning("%s", note)
        return changes
