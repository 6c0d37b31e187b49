"""The thread that looks after plugins between events: it frees closed connections and applies changed policies.

After a possible change of the policy's file, and after plugins joined or left, it checks a few times, once a second.
Otherwise it checks once a minute (`nri.config.inotify`).
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from nri.config.inotify import FileChanges

if TYPE_CHECKING:
    from nri.adaptation.audit.reporting import Reporting
    from nri.adaptation.registration.chain import Chain
    from nri.adaptation.registration.handshake import Handshake
    from nri.adaptation.registration.registry import Registry
    from nri.plugin_policy.policy import Policies

log = logging.getLogger("nri.adaptation")

#: The interval of checks after a change, in seconds.
CHECK_INTERVAL_S = 1.0


class Housekeeping:
    """Applies policy changes and frees connections. Call `start` once, and `stop` at the end.

    Attributes:
        generation: the generation of the policy in force.
    """

    def __init__(
        self, registry: Registry, chain: Chain, handshake: Handshake, policies: Policies, reporting: Reporting
    ) -> None:
        self._registry = registry
        self._reporting = reporting
        self._chain = chain
        self._handshake = handshake
        self._policies = policies
        self.generation = policies.generation
        self._changes = FileChanges(*(() if policies.path is None else (policies.path,)), interval_s=CHECK_INTERVAL_S)
        registry.listen(self._changes.wake)
        self._thread = threading.Thread(target=self._run, name="nri-housekeeping", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; `join` waits for its end."""
        self._changes.end()

    def join(self) -> None:
        """Wait until the thread has ended, a few seconds at most."""
        if self._thread.is_alive():
            self._thread.join(5.0)
        if not self._thread.is_alive():
            self._changes.close()

    def apply_policy(self) -> None:
        """Apply a changed policy or timeout to all plugins, beginning with the next event."""
        for peer in self._chain.peers:
            self._handshake.apply_policy(peer)
        self._chain.refresh()
        self._registry.notify_listeners()

    def _run(self) -> None:
        while self._changes.wait():
            try:
                if self._registry.reap():
                    self._changes.wake()  # a thread still uses a connection
                self._reporting.limited_log.flush()
                if self._policies.refresh() != self.generation:
                    self.generation = self._policies.generation
                    self.apply_policy()
            except Exception:
                log.exception("failed to apply a changed policy completely")
