"""Collect the parts of a Synchronize before the handler runs, because a container may come before its pod.

The parts are decoded when a handler first reads one of the two lists; `len` alone does not decode them. A limit of
bytes is not enough: a message of empty messages takes 40 to 120 times its bytes in memory, a real state three times.
So objects are counted before a part is decoded, and the memory is measured afterwards.
"""

from __future__ import annotations

from _thread import allocate_lock
from os import sysconf
from typing import Any

from nri.api import messages as m
from nri.errors import RpcError
from nri.stub.handler.call import complete_name
from nri.stub.support.decode_errors import unreadable
from nri.ttrpc.codes import Code
from nri.wire import iter_fields

#: Fields of `SynchronizeRequest`.
_PODS, _CONTAINERS, _MORE = 1, 2, 3
MORE_REPLY = b"\x10\x01"

PAGE_BYTES = sysconf("SC_PAGE_SIZE")

#: The largest size of all parts of a synchronization together; ten thousand containers have 40 to 90 MiB.
MAX_STATE_BYTES = 256 << 20
#: A state has at most this many pods and containers.
MAX_STATE_OBJECTS = 1 << 18
#: The memory limit of decoded messages is SPARE_MEMORY + MEMORY_PER_BYTE for each byte, at most MAX_STATE_MEMORY.
MEMORY_PER_BYTE = 16
SPARE_MEMORY = 64 << 20
MAX_STATE_MEMORY = 768 << 20


class StateTooLarge(RpcError):
    """The runtime's state is larger than a plugin accepts. The plugin's code is not at fault."""


class Parts:
    """The parts that have arrived so far."""

    __slots__ = ("_counts", "_size", "_sizes_before_part", "_state")

    _sizes_before_part: tuple[int, list[int]]
    _counts: list[int]
    _size: int

    def __init__(self) -> None:
        self.clear()

    def add(self, payload: bytes, *, keep: bool) -> bool:
        """Add a part. Returns whether more parts follow. Without `keep` the part is only checked."""
        size, counts = self._size + len(payload), [*self._counts]
        if size > MAX_STATE_BYTES:
            raise self._refuse(f"is over {MAX_STATE_BYTES} bytes")
        more = False
        remaining = MAX_STATE_OBJECTS - counts[_PODS] - counts[_CONTAINERS] if keep else len(payload)
        for number, wire_type, value in iter_fields(payload):
            if number == _MORE and wire_type == 0:
                more = bool(value)
            elif number <= _CONTAINERS and wire_type == 2:
                remaining -= 1
                if remaining < 0:
                    raise self._refuse(f"has over {MAX_STATE_OBJECTS} pods and containers")
                counts[number] += 1
        # A part that cannot be decoded changes nothing, so that the parts before and after it stay together.
        self._sizes_before_part = self._size, self._counts
        self._size, self._counts = size, counts
        if keep:
            self._state.payloads.append(payload)
        elif not more:
            self.clear()
        return more

    def _refuse(self, why: str) -> StateTooLarge:
        """Drop all parts, and return the error."""
        self.clear()
        return _too_large(why)

    def take(self) -> tuple[list[m.PodSandbox], list[m.Container]]:
        """Return the pods and containers of all parts, and drop the parts."""
        state = self._state
        state.size = self._size
        state.pods, state.containers = (
            _LazyList(state, self._counts[_PODS]),
            _LazyList(state, self._counts[_CONTAINERS]),
        )
        self.clear()
        return state.pods, state.containers

    def read(self) -> None:
        """Decode the parts that have arrived, while the runtime prepares the next part."""
        self._state.size = self._size
        try:
            self._state.parse()
        except StateTooLarge:
            self.clear()
            raise
        except BaseException:
            self._state.payloads.clear()
            self._size, self._counts = self._sizes_before_part
            raise

    def clear(self) -> None:
        """Drop all parts."""
        self._state = _State()
        self._counts = [0, 0, 0]  # by number of field
        self._size = 0
        self._sizes_before_part = self._size, self._counts


class _State:
    """The parts from which two lists are filled, once.

    Attributes:
        payloads: the parts that are not yet decoded.
        size: the bytes of all parts.
        pods, containers: the lists to fill.
    """

    __slots__ = ("_containers", "_lock", "_pods", "_used_bytes", "containers", "payloads", "pods", "size")

    pods: _LazyList
    containers: _LazyList

    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        self.size = self._used_bytes = 0
        self._pods: list[m.PodSandbox] = []
        self._containers: list[m.Container] = []
        self._lock = allocate_lock()  # a handler may have threads

    def parse(self) -> None:
        """Decode the parts. Raises StateTooLarge or Unreadable, again at every call."""
        max_bytes = min(SPARE_MEMORY + MEMORY_PER_BYTE * self.size, MAX_STATE_MEMORY)
        while self.payloads:
            before = resident_bytes()
            try:
                request = m.SynchronizeRequest.FromString(self.payloads[0])
            except Exception as error:  # noqa: BLE001 - the decoder's errors have no common base
                raise unreadable(error) from None
            # Measured around the decoding alone, so that other threads of the plugin count as little as possible.
            used_bytes = self._used_bytes + max(0, resident_bytes() - before)
            if used_bytes > max_bytes:
                raise _too_large(f"takes over {max_bytes} bytes of memory")
            self._used_bytes = used_bytes
            del self.payloads[0]
            self._pods += request.pods
            for container in request.containers:
                complete_name(container)
            self._containers += request.containers

    def read(self) -> None:
        """Fill the lists. Raises the exceptions of `parse`."""
        with self._lock:
            if self.pods.state is not None:
                self.parse()
                list.extend(self.pods, self._pods)
                list.extend(self.containers, self._containers)
                self.pods.state = self.containers.state = None


class _LazyList(list[Any]):
    """A list that is filled when it is first read.

    Attributes:
        state: the source of its entries; None once the list is filled.
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
        return NotImplemented  # then `list` concatenates as usual, also in place

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return list, (self[:],)


def _after_reading(name: str) -> Any:
    method = getattr(list, name)

    def read_first(self: _LazyList, *arguments: Any, **named: Any) -> Any:
        for operand in (self, *arguments):  # an argument may be a list of another synchronization
            if isinstance(operand, _LazyList) and operand.state is not None:
                operand.state.read()
        return method(self, *arguments, **named)

    return read_first


for _name in vars(list):
    if _name not in vars(_LazyList) and _name not in ("__new__", "__getattribute__", "__hash__", "__class_getitem__"):
        setattr(_LazyList, _name, _after_reading(_name))


def _too_large(why: str) -> StateTooLarge:
    return StateTooLarge(Code.RESOURCE_EXHAUSTED, f"the state to synchronize {why}")


def resident_bytes() -> int:
    """The resident memory of this process, because protobuf does not report the size of a message in memory."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * PAGE_BYTES
