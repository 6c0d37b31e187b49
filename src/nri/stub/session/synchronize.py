"""Put the parts of a Synchronize together before the handler runs: a container may come before its pod.

Next: `nri.stub.session.service`, which hands over the whole.
"""

from __future__ import annotations

from os import sysconf

from nri.api import messages as m
from nri.errors import RpcError
from nri.ttrpc.codes import Code
from nri.wire import iter_fields

__all__ = ["MAX_STATE_BYTES", "MORE_REPLY", "Parts", "StateTooLarge"]

#: Field of `SynchronizeRequest` that says whether more parts follow, and the reply that asks for them (`more = true`).
_MORE = 3
MORE_REPLY = b"\x10\x01"

PAGE_BYTES = sysconf("SC_PAGE_SIZE")

#: The most memory that they may take once they are messages: empty ones take 69 times their bytes.
MAX_STATE_MEMORY = 2 << 30

#: The most that all parts of one synchronization may add up to: thousands of pods, and no memory for an endless one.
MAX_STATE_BYTES = 512 << 20


class StateTooLarge(RpcError):
    """The runtime's state is more than a plugin takes in: no mistake of the plugin's code."""


class Parts:
    """The parts that have come so far."""

    __slots__ = ("_before", "_requests", "_size")

    def __init__(self) -> None:
        self._requests: list[m.SynchronizeRequest] = []
        self._size = 0
        self._before = 0

    def add(self, payload: bytes, *, keep: bool) -> bool:
        """Take one message; returns whether more follow. Without `keep` nothing is parsed or held."""
        self._size += len(payload)
        if self._size > MAX_STATE_BYTES:
            self.clear()
            raise StateTooLarge(Code.RESOURCE_EXHAUSTED, f"the state to synchronize is over {MAX_STATE_BYTES} bytes")
        if keep:
            if not self._requests:
                self._before = _resident_bytes()
            request = m.SynchronizeRequest.FromString(payload)
            self._requests.append(request)
            more = request.more
            if more and _resident_bytes() - self._before > MAX_STATE_MEMORY:
                self.clear()
                text = f"the state to synchronize takes over {MAX_STATE_MEMORY} bytes"
                raise StateTooLarge(Code.RESOURCE_EXHAUSTED, text)
        else:
            more = any(number == _MORE and value for number, _, value in iter_fields(payload))
        if not more:
            self._size = 0
        return more

    def take(self) -> tuple[list[m.PodSandbox], list[m.Container]]:
        """Return everything, once the last part is there, and forget it."""
        requests, self._requests = self._requests, []
        pods = [pod for request in requests for pod in request.pods]
        return pods, [container for request in requests for container in request.containers]

    def clear(self) -> None:
        """Forget: the connection is gone."""
        self._requests = []
        self._size = 0


def _resident_bytes() -> int:
    """The memory that this process has at present. protobuf does not tell what a message takes; this does."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * PAGE_BYTES
