"""Watch the file of `--config`: a change calls `configure` again, between two handlers.

A file with mistakes changes nothing, and the mistakes are logged.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from nri.config import Watch
from nri.config.inotify import FileChanges
from nri.errors import NriError
from nri.stub.session import settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nri.signals import Stop
    from nri.stub.base import PluginBase
    from nri.stub.session.session import Session

#: The interval of checks after a possible change of the configuration file, in seconds.
WATCH_S = 1.0


class ConfigWatch:
    """A thread that watches a file until the program is stopped.

    Changes count from the creation of this object, so it must be created before the file is read.

    Args:
        plugin: receives the new configuration.
        file: the path of the file, which is read together with the runtime's configuration.
        plugin_flags: the flags that the plugin's class defines, which override the file.
        runtime_text: returns the runtime's latest configuration text.
        session: returns the current session, or None without a connection.
        stop: ends the watch.
    """

    def __init__(
        self,
        plugin: PluginBase,
        file: str,
        *,
        plugin_flags: Mapping[str, list[str] | bool] | None = None,
        runtime_text: Callable[[], str],
        session: Callable[[], Session | None],
        stop: Stop,
    ) -> None:
        self._plugin = plugin
        self._file = file
        self._plugin_flags = plugin_flags or {}
        self._runtime_text = runtime_text
        self._session = session
        self._stop = stop
        self._watch = Watch(file)
        self._changes = FileChanges(file, interval_s=WATCH_S)

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name="nri-config-watch", daemon=True).start()

    def _run(self) -> None:
        while self._changes.wait() and not self._stop:
            session = self._session()
            if session is None:
                self._changes.wake()  # the session of the next connection applies the change
            elif self._watch.changed():
                self._reconfigure(session)

    def _reconfigure(self, session: Session) -> None:
        log = self._plugin.log
        try:
            session.reconfigure(
                lambda: settings.apply(self._plugin, self._runtime_text(), self._file, self._plugin_flags)
            )
        except NriError as error:
            log.error("configuration not changed: %s", error)  # noqa: TRY400 - the error has file and key
        except Exception:
            log.exception("configure failed")
        else:
            log.info("configuration read again from %s", self._file)
