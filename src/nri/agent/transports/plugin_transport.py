"""Base class of transports in which the agent is a plugin: the name, thread and connection state.

A lost connection is retried after a pause that grows up to a limit. A repeated problem is logged once.
"""

from __future__ import annotations

import logging
import threading
from typing import Final, Generic, TypeVar

from nri.agent.parts import Parts
from nri.agent.settings import AgentSettings
from nri.agent.transports.hook_plugin import HookPlugin
from nri.api import naming
from nri.backoff import Backoff
from nri.text import plain

#: The time in seconds to wait for the end of a thread.
JOIN_S: Final = 10.0
_log = logging.getLogger("nri.agent.transports")
P = TypeVar("P", bound=HookPlugin)


class PluginTransport(Generic[P]):
    """The common behaviour of modes "nri" and "proxy".

    Args:
        name: the name of the mode.
        settings: the settings of the agent.
        parts: the shared parts of the agent.
        plugin: the plugin to register.
    """

    def __init__(self, name: str, settings: AgentSettings, parts: Parts, plugin: P) -> None:
        self.name, self.plugin = name, plugin
        self.label = naming.full_name(settings.nri.index, settings.nri.name)
        self._nri, self._observer, self._reporter = settings.nri, parts.observer, parts.reporter
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._problem = ""

    def rules_changed(self, kinds: frozenset[str]) -> None:  # noqa: ARG002 - hooks read several kinds
        """Request new decisions for running pods and containers."""
        self.plugin.rules_changed()

    def _backoff(self) -> Backoff:
        return Backoff(self._nri.backoff, self._nri.backoff_cap)

    def _connected(self, backoff: Backoff) -> None:
        """Record that the plugin is registered."""
        backoff.reset()
        with self._lock:
            self._problem = ""
        self._observer.count_event(self.name, "connected")

    def _failed(self, reason: str, what: str = "") -> None:
        """Record a failed or lost connection; `what` introduces the reason in the log."""
        text = plain(reason)
        with self._lock:
            is_repeated, self._problem = self._problem == text, text
        if not is_repeated:
            _log.warning("mode %s: %s%s", self.name, what, text)

    def _pause(self, backoff: Backoff) -> None:
        """Wait before the next connection, unless the transport is stopped."""
        if not self._stopped.is_set():
            self._observer.count_event(self.name, "refused")
            self._stopped.wait(backoff.ended())
