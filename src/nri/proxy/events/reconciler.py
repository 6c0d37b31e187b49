"""Records and runtime brought together again and again, beside the kubelet's calls.

Rules: each time that the runtime is connected to, and once a minute: then what was made or removed around the proxy is
found although no call names it, and no record stays for ever. A runtime that serves and cannot answer yet, as one that
has just begun, is asked again soon, and less and less often; that is said once. Next: `nri.proxy.events.adoption`.
"""

from __future__ import annotations

import logging
import threading

from nri.errors import NriError
from nri.proxy.events.adoption import Adoption

__all__ = ["Reconciler"]

#: How often what the runtime has is compared with the records, in seconds.
EVERY_S = 60.0
#: After a failure: so many seconds, then twice as many, up to the second.
_AGAIN_S, _AGAIN_AT_MOST_S = 0.5, 30.0

_log = logging.getLogger("nri.proxy")


class Reconciler:
    """Has `Adoption.everything` done in a thread of its own."""

    def __init__(self, adoption: Adoption) -> None:
        self._adoption = adoption
        self._wanted, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="nri-proxy-reconcile", daemon=True)

    def wake(self) -> None:
        """Have it done now; from any thread, also before `start`."""
        self._wanted.set()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def give_up(self) -> None:
        """Begin no more, and say nothing of what fails from now on: the connection to the runtime is being closed."""
        self._stopping.set()
        self._wanted.set()

    def stop(self) -> None:
        """End it; the connection to the runtime is closed before, so that nothing waits for that."""
        self.give_up()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        failures = 0
        while True:
            self._wanted.wait(min(_AGAIN_S * 2.0 ** min(failures - 1, 16), _AGAIN_AT_MOST_S) if failures else EVERY_S)
            if self._stopping.is_set():
                return
            self._wanted.clear()
            try:
                self._adoption.everything(late=True)
            except Exception as error:  # noqa: BLE001  one bad answer must not end the looking
                if not failures and not self._stopping.is_set():
                    known = isinstance(error, NriError)
                    _log.warning("the runtime's pods and containers are not known yet: %s", error, exc_info=not known)
                failures += 1
                continue
            if failures:
                _log.info("the runtime's pods and containers are known again")
            failures = 0
