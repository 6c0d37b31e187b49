"""The proxy put together: what stands between a kubelet and its runtime, started and stopped as one thing.

One job: wiring. Rules: the kubelet is let in last, and out first; containers run on whatever happens here. Next:
`nri.proxy.passing`, the way of a call.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from nri.cri.client import find_socket
from nri.proxy.passing import Backend, Front
from nri.proxy.settings import ProxySettings

if TYPE_CHECKING:
    from nri.adaptation import BuiltinPlugin
    from nri.metrics import Observer
    from nri.proxy.hooks import HookServers

__all__ = ["Proxy"]

_log = logging.getLogger("nri.proxy")


class Proxy:
    """A CRI proxy with NRI. Raises NriError, OSError if it cannot be made or started.

    Args:
        settings: all settings.
        builtin: plugins inside this process.
        hook_servers: Koordinator's hook servers, asked before plugins; None for none.
        observer: metrics, as `nri.adaptation.Adaptation` takes them.
    """

    def __init__(
        self,
        settings: ProxySettings,
        *,
        builtin: Sequence[BuiltinPlugin] = (),
        hook_servers: HookServers | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.settings = settings
        self._hook_servers = hook_servers
        self._builtin, self._observer = builtin, observer
        self.runtime = (settings.runtime or find_socket()).removeprefix("unix://")
        self.backend = Backend(self.runtime)
        self._front = Front(settings.socket.removeprefix("unix://"), self.backend, {})
        self._stopped = threading.Event()

    def start(self) -> None:
        """Connect to the runtime, there or not, and listen. Raises OSError, NriError; nothing is left then."""
        try:
            self.backend.start()
            if self._hook_servers is not None:
                self._hook_servers.start()
            self._front.start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Take no more calls, and let go of everything; containers run on. A second call does nothing."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        self._front.stop()
        if self._hook_servers is not None:
            self._hook_servers.stop()
        self.backend.stop()

    def run(self, end: threading.Event) -> None:
        """Start, wait until `end` is set, and stop. Raises as `start` does."""
        with self:
            end.wait()

    def describe(self) -> str:
        """Where it listens and what it stands before, in one line."""
        return f"CRI at {self.settings.socket}, passed on to {self.runtime}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
