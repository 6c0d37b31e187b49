"""Watch the file of `--config`: a change calls `configure` again, between two handlers.

A file that cannot be used changes nothing, and says why in the log. A thread of its own sleeps until the file may have
changed (`nri.config.inotify`), and then looks. Next: `nri.config.Watch` tells whether a file has changed,
`nri.stub.session.settings` applies it.
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

__all__ = ["ConfigWatch"]

#: How often the configuration file is looked at once it may have changed, in seconds.
WATCH_S = 1.0


class ConfigWatch:
    """A thread that looks at one file until the program is stopped.

    Every change since this was made counts, so it is made before the file is read, and started after.

    Args:
        plugin: gets the new configuration.
        file: path of the file; read together with the runtime's text.
        own: the plugin's own flags, which come before the file.
        runtime_text: gives the runtime's latest configuration text.
        session: gives the present session, None while there is no connection.
        stop: ends the watch.
    """

    def __init__(
        self,
        plugin: PluginBase,
        file: str,
        *,
        own: Mapping[str, list[str] | bool] | None = None,
        runtime_text: Callable[[], str],
        session: Callable[[], Session | None],
        stop: Stop,
    ) -> None:
        self._plugin = plugin
        self._file = file
        self._own = own or {}
        self._runtime_text = runtime_text
        self._session = session
        self._stop = stop
        self._watch = Watch(file)
        self._changes = FileChanges(file, look_s=WATCH_S)

    def start(self) -> None:
        """Look from now on."""
        threading.Thread(target=self._run, name="nri-config-watch", daemon=True).start()

    def _run(self) -> None:
        while self._changes.wait() and not self._stop:
            session = self._session()
            if session is None:
                self._changes.wake()  # what has changed is for the next connection's session
            elif self._watch.changed():
                self._reconfigure(session)

    def _reconfigure(self, session: Session) -> None:
        log = self._plugin.log
        try:
            session.reconfigure(lambda: settings.apply(self._plugin, self._runtime_text(), self._file, self._own))
        except NriError as error:
            log.error("configuration not changed: %s", error)  # noqa: TRY400 - the error says where and what
        except Exception:
            log.exception("configure failed")
        else:
            log.info("configuration read again from %s", self._file)
