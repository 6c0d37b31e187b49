"""Run a plugin in a thread of this process, connected to a runtime's adaptation over a socket pair or a link."""

from __future__ import annotations

import socket
import threading
from time import monotonic
from typing import TYPE_CHECKING

from nri.errors import LocalProtocolError
from nri.stub.session import settings
from nri.stub.session.background import Background
from nri.stub.session.session import Session

if TYPE_CHECKING:
    from nri.adaptation import Adaptation
    from nri.stub.plugin import Plugin
    from nri.testing.wire import Link

#: How long to wait until a plugin is active, in seconds. The limit is long, because build machines are slow.
PATIENCE_S = 20.0
# A longer wait would delay the error of a plugin that ends instead.
_POLL_S = 0.02


class Attached:
    """A plugin and its current session.

    Args:
        plugin: an instance.
        index: the index, two digits.
        name: the name for the registration.
        config: the runtime's configuration text for the plugin.
        real_time: start the plugin's background work (`nri.every`), as a program does; otherwise it runs only in
            `tick`.

    Attributes:
        label: ``NN-name``.
        plugin: the instance.
        background: the plugin's background work.
    """

    def __init__(self, plugin: Plugin, index: str, name: str, config: str, *, real_time: bool = True) -> None:
        settings.check_attributes(plugin)
        self.label = f"{index}-{name}"
        self.background = Background(plugin)
        self._real_time = real_time
        self._begun = threading.Event()
        self.plugin, self._index, self._name, self._config = plugin, index, name, config
        self._session: Session | None = None
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def connect(self, adaptation: Adaptation, link: Link | None = None) -> None:
        """Start a new session, over a socket pair or over `link`."""
        runtime_end, plugin_end = (link.runtime, link.plugin) if link is not None else socket.socketpair()
        self._error = None
        self._begun.clear()
        session = self._session = Session(
            self.plugin,
            plugin_end,
            index=self._index,
            name=self._name,
            on_ready=self._on_ready,
            check_messages=True,
        )
        self._thread = threading.Thread(target=self._run, args=(session,), name=f"plugin-{self.label}", daemon=True)
        self._thread.start()
        adaptation.connect(runtime_end, self._config)

    def _run(self, session: Session) -> None:
        try:
            session.run()
        except Exception as error:  # noqa: BLE001 - raised by `wait`, in the test's thread
            self._error = error

    def _on_ready(self) -> None:
        if self._real_time:
            self.background.start()
        self._begun.set()

    @property
    def ready(self) -> bool:
        """Whether the plugin is synchronized, and its background work has started."""
        return self._session is not None and self._session.stage == "ready" and self._begun.is_set()

    def wait(self, adaptation: Adaptation) -> None:
        """Wait until the plugin is active, and its updates of Synchronize are applied. Raises its error otherwise."""
        deadline = monotonic() + PATIENCE_S
        while not (adaptation.ready([self.label], _POLL_S, settled=True) and self._begun.wait(_POLL_S) and self.ready):
            ended = self._thread is None or not self._thread.is_alive()
            if self._error is not None:  # checked after the thread, which sets it at the end
                raise self._error
            if ended or monotonic() > deadline:
                state = next((row for row in adaptation.plugins if row.plugin == self.label), None)
                raise LocalProtocolError(f"plugin {self.label} does not take part: {state or 'never registered'}")

    def reconfigure(self, config: str) -> None:
        """Change the plugin's configuration, like a change of the file of `--config`. Raises the plugin's errors."""
        session = self._session
        if session is None or not self.ready:
            raise LocalProtocolError(f"plugin {self.label} is not connected, so its configuration cannot be changed")
        session.reconfigure(lambda: settings.apply(self.plugin, config))
        self._config = config

    def stop(self) -> None:
        """End the connection from the plugin's side."""
        if self._session is not None:
            self._session.stop()
        self.join()

    def join(self) -> None:
        """Wait for the end of the session's thread."""
        if self._thread is not None:
            self._thread.join(PATIENCE_S)
