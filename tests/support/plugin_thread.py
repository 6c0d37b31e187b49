"""A plugin's session in a thread, with a scripted runtime at the other end of a socketpair."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import nri
from nri.stub.session.session import Session
from tests.support.scripted_runtime import PATIENCE_S, ScriptedRuntime


class PluginThread:
    """A running session; `outcome` is what `run` returned or raised."""

    def __init__(self, plugin: nri.Plugin, **options: Any) -> None:
        near_end, far_end = socket.socketpair()
        self.plugin = plugin
        self.runtime = ScriptedRuntime(far_end)
        self.session = Session(plugin, near_end, index=options.pop("index", "10"), **options)
        self.outcome: str | BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.outcome = self.session.run()
        except BaseException as error:
            self.outcome = error

    def ended(self) -> str | BaseException | None:
        """Wait for the session's end; fails if it hangs."""
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the plugin hangs: its session has not ended"
        return self.outcome


@contextmanager
def plugin_thread(plugin: nri.Plugin, **options: Any) -> Iterator[PluginThread]:
    """A session that is over when the test is."""
    running = PluginThread(plugin, **options)
    try:
        yield running
    finally:
        running.runtime.close()
        running.ended()
