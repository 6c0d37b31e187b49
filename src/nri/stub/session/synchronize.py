"""Put the parts of a Synchronize together before the handler runs: a container may come before its pod.

The held parts are bounded by their content and not by their bytes alone: a message that is empty but for empty messages
takes 40 to 120 times its bytes, a real state three times. So objects are counted before a part is parsed, and the
memory that its parse has taken is looked at after it: what is refused has cost one part, of 4 MiB at most, more than is
allowed. Next: `nri.stub.session.service`, which hands over the whole.
"""

from __future__ import annotations

from itertools import islice
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

#: The most that all parts of one synchronization may add up to: ten thousand containers have 40 to 90 MiB.
MAX_STATE_BYTES = 256 << 20
#: Pods and containers in it.
MAX_STATE_OBJECTS = 1 << 18
#: The memory that they may take once they are messages: so much for each byte and some more, but no more than the last.
MEMORY_PER_BYTE = 16
SPARE_MEMORY = 64 << 20
MAX_STATE_MEMORY = 768 << 20


class StateTooLarge(RpcError):
    """The runtime's state is more than a plugin takes in: no mistake of the plugin's code."""


class Parts:
    """The parts that have come so far."""

    __slots__ = ("_memory", "_objects", "_requests", "_size")

    def __init__(self) -> None:
        self._requests: list[m.SynchronizeRequest] = []
        self._size = self._objects = self._memory = 0

    def add(self, payload: bytes, *, keep: bool) -> bool:
        """Take one message; returns whether more follow. Without `keep` nothing is parsed or held."""
        self._size += len(payload)
        if self._size > MAX_STATE_BYTES:
            raise self._refused(f"is over {MAX_STATE_BYTES} bytes")
        if keep:
            more = self._keep(payload)
        else:
            more = any(number == _MORE and value for number, _, value in iter_fields(payload))
        if not more:
            self._size = self._objects = self._memory = 0
        return more

    def _keep(self, payload: bytes) -> bool:
        """Parse and hold one message; returns whether more follow."""
        # An object takes two bytes at least: most states are too short to have too many, and need no count before.
        if self._objects + len(payload) // 2 > MAX_STATE_OBJECTS:
            fields = islice(iter_fields(payload), MAX_STATE_OBJECTS + 2)
            if self._objects + sum(number != _MORE for number, _, _ in fields) > MAX_STATE_OBJECTS:
                raise self._refused(f"has over {MAX_STATE_OBJECTS} pods and containers")
        before = resident_bytes()
        request = m.SynchronizeRequest.FromString(payload)
        # Measured around the parse alone: what other threads of the plugin take meanwhile is theirs.
        self._memory += max(0, resident_bytes() - before)
        most = min(SPARE_MEMORY + MEMORY_PER_BYTE * self._size, MAX_STATE_MEMORY)
        if self._memory > most:
            raise self._refused(f"takes over {most} bytes of memory")
        self._requests.append(request)
        self._objects += len(request.pods) + len(request.containers)
        return request.more

    def _refused(self, why: str) -> StateTooLarge:
        """Forget what is there; returns the error."""
        self.clear()
        return StateTooLarge(Code.RESOURCE_EXHAUSTED, f"the state to synchronize {why}")

    def take(self) -> tuple[list[m.PodSandbox], list[m.Container]]:
        """Return everything, once the last part is there, and forget it."""
        requests, self._requests = self._requests, []
        pods = [pod for request in requests for pod in request.pods]
        return pods, [container for request in requests for container in request.containers]

    def clear(self) -> None:
        """Forget: the connection is gone."""
        self._requests = []
        self._size = self._objects = self._memory = 0


def resident_bytes() -> int:
    """The memory that this process has at present. protobuf does not tell what a message takes; this does."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * PAGE_BYTES
