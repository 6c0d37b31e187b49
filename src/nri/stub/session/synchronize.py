"""Put the parts of a Synchronize together before the handler runs: a container may come before its pod.

The messages are made when a handler first looks into one of the two lists: to be told how many there are, or nothing,
costs a handler no parse, which is half of the plugin's work and most of its memory. A list is a `list` in all else.

The held parts are bounded by their content and not by their bytes alone: a message that is empty but for empty messages
takes 40 to 120 times its bytes, a real state three times. So objects are counted before a part is parsed, and the
memory that its parse has taken is looked at after it: what is refused has cost one part, of 4 MiB at most, more than is
allowed. Next: `nri.stub.session.service`, which hands over the whole.
"""

from __future__ import annotations

from _thread import allocate_lock
from os import sysconf
from typing import Any

from nri.api import messages as m
from nri.errors import RpcError
from nri.stub.support.unreadable import unreadable
from nri.ttrpc.codes import Code
from nri.wire import iter_fields

__all__ = ["MAX_STATE_BYTES", "MORE_REPLY", "Parts", "StateTooLarge"]

#: Fields of `SynchronizeRequest`; and the reply that asks for further parts (`more = true`).
_PODS, _CONTAINERS, _MORE = 1, 2, 3
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

    __slots__ = ("_before", "_counts", "_size", "_state")

    _before: tuple[int, list[int]]
    _counts: list[int]
    _size: int

    def __init__(self) -> None:
        self.clear()

    def add(self, payload: bytes, *, keep: bool) -> bool:
        """Take one message; returns whether more follow. Without `keep` nothing is held."""
        size, counts = self._size + len(payload), [*self._counts]
        if size > MAX_STATE_BYTES:
            raise self._refused(f"is over {MAX_STATE_BYTES} bytes")
        more = False
        left = MAX_STATE_OBJECTS - counts[_PODS] - counts[_CONTAINERS] if keep else len(payload)
        for number, wire_type, value in iter_fields(payload):
            if number == _MORE and wire_type == 0:
                more = bool(value)
            elif number <= _CONTAINERS and wire_type == 2:
                left -= 1
                if left < 0:
                    raise self._refused(f"has over {MAX_STATE_OBJECTS} pods and containers")
                counts[number] += 1
        # A part that cannot be read changes nothing: those before it and behind it belong together.
        self._before = self._size, self._counts
        self._size, self._counts = size, counts
        if keep:
            self._state.payloads.append(payload)
        elif not more:
            self.clear()
        return more

    def _refused(self, why: str) -> StateTooLarge:
        """Forget what is there; returns the error."""
        self.clear()
        return _too_large(why)

    def take(self) -> tuple[list[m.PodSandbox], list[m.Container]]:
        """Return everything, once the last part is there, and forget it."""
        state = self._state
        state.size = self._size
        state.pods, state.containers = _Unread(state, self._counts[_PODS]), _Unread(state, self._counts[_CONTAINERS])
        self.clear()
        return state.pods, state.containers

    def read(self) -> None:
        """Make the messages that are there: somebody will look at all of them, and the runtime is at the next part."""
        self._state.size = self._size
        try:
            self._state.parse()
        except StateTooLarge:
            self.clear()
            raise
        except BaseException:
            self._state.payloads.clear()
            self._size, self._counts = self._before
            raise

    def clear(self) -> None:
        """Forget: the connection is gone."""
        self._state = _State()
        self._counts = [0, 0, 0]  # by number of field
        self._size = 0
        self._before = self._size, self._counts


class _State:
    """What two lists are made of: the parts, and how to read them once.

    Attributes:
        payloads: the parts that were not read yet.
        size: bytes of all parts.
        pods, containers: the lists to fill.
    """

    __slots__ = ("_containers", "_lock", "_pods", "_taken", "containers", "payloads", "pods", "size")

    pods: _Unread
    containers: _Unread

    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        self.size = self._taken = 0
        self._pods: list[m.PodSandbox] = []
        self._containers: list[m.Container] = []
        self._lock = allocate_lock()  # a handler may have threads

    def parse(self) -> None:
        """Make the messages of the parts. Raises StateTooLarge, or Unreadable; then again."""
        most = min(SPARE_MEMORY + MEMORY_PER_BYTE * self.size, MAX_STATE_MEMORY)
        while self.payloads:
            before = resident_bytes()
            try:
                request = m.SynchronizeRequest.FromString(self.payloads[0])
            except Exception as error:  # noqa: BLE001 - the decoder's errors have no common base
                raise unreadable(error) from None
            # Measured around the parse alone: what other threads of the plugin take meanwhile is theirs.
            taken = self._taken + max(0, resident_bytes() - before)
            if taken > most:
                raise _too_large(f"takes over {most} bytes of memory")
            self._taken = taken
            del self.payloads[0]
            self._pods += request.pods
            self._containers += request.containers

    def read(self) -> None:
        """Fill the lists; raises what `parse` raises."""
        with self._lock:
            if self.pods.state is not None:
                self.parse()
                list.extend(self.pods, self._pods)
                list.extend(self.containers, self._containers)
                self.pods.state = self.containers.state = None


class _Unread(list[Any]):
    """A list that is filled when somebody looks into it.

    Attributes:
        state: what it is filled from; None once it is.
    """

    __slots__ = ("_length", "state")

    def __init__(self, state: _State, length: int) -> None:
        super().__init__()
        self.state: _State | None = state
        self._length = length

    def __len__(self) -> int:
        return list.__len__(self) if self.state is None else self._length

    def __radd__(self, other: object) -> Any:
        if self.state is not None:
            self.state.read()
        return NotImplemented  # so that a list goes on as with any other, in place, too

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return list, (self[:],)


def _reading(name: str) -> Any:
    method = getattr(list, name)

    def read_first(self: _Unread, *arguments: Any, **named: Any) -> Any:
        for each in (self, *arguments):  # it may be compared with, or added to, one of another synchronization
            if isinstance(each, _Unread) and each.state is not None:
                each.state.read()
        return method(self, *arguments, **named)

    return read_first


for _name in vars(list):
    if _name not in vars(_Unread) and _name not in ("__new__", "__getattribute__", "__hash__", "__class_getitem__"):
        setattr(_Unread, _name, _reading(_name))


def _too_large(why: str) -> StateTooLarge:
    return StateTooLarge(Code.RESOURCE_EXHAUSTED, f"the state to synchronize {why}")


def resident_bytes() -> int:
    """The memory that this process has at present. protobuf does not tell what a message takes; this does."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * PAGE_BYTES
