"""Read and change network devices over a netlink socket, and move them to another network namespace.

pyroute2 is not used: importing it takes ten times as long as this module, and 24 MiB more memory.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from time import monotonic
from typing import NamedTuple, Self

from nri.plugins.network_device_injector.namespace import enter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# Constants of linux/netlink.h, rtnetlink.h, if_link.h, if_addr.h and if.h.
_REQUEST, _ACK, _DUMP, _REPLACE, _CREATE = 0x1, 0x4, 0x300, 0x100, 0x400
_ERROR, _DONE = 2, 3
_NEW_LINK, _GET_LINK = 16, 18
_NEW_ADDRESS, _GET_ADDRESS = 20, 22
_NEW_ROUTE, _GET_ROUTE = 24, 26
_NAME, _MTU, _ALIAS, _NAMESPACE_FD, _EXT_MASK = 3, 4, 20, 28, 29
_ADDRESS, _LOCAL = 1, 2
_OUT_DEVICE = 4
_UP = 0x1
_NO_DUPLICATE_DETECTION = 0x02
_SKIP_STATISTICS = struct.pack("=I", 1 << 3)
_BY_KERNEL = 2
# SOL_NETLINK: request error messages in words, without a copy of the request.
_NETLINK, _SHORT_ERRORS, _WORDS_OF_ERRORS = 270, 10, 11
_HAS_WORDS, _WORDS = 0x200, 1

_HEADER = struct.Struct("=IHHII")
_LINK = struct.Struct("=BxHiII")
_ADDRESS_OF = struct.Struct("=BBBBi")
#: The length of a route's fixed fields in bytes.
_ROUTE_BYTES = 12
#: The index of the byte with a route's creator.
_ROUTE_PROTOCOL = 5
#: The kernel must answer within this time. An answer takes microseconds, except for devices that are slow to go down.
ANSWER_TIMEOUT_S = 5.0


class Device(NamedTuple):
    """The state of a network device.

    Attributes:
        number: its index in its namespace.
        name: its name in its namespace.
        up: whether it is up.
        mtu: its MTU in bytes.
        alias: its alias, which it keeps when it is moved.
    """

    number: int
    name: str
    up: bool
    mtu: int
    alias: str


class Record(NamedTuple):
    """An address or a route of a device, in the kernel's format."""

    kind: int
    payload: bytes


class Netlink:
    """A socket to the kernel, in the namespace of the file `path` or of the calling thread.

    A socket stays in the namespace in which it was created. Each answer has a deadline.

    Raises:
        OSError: the namespace does not exist, or cannot be entered.
    """

    def __init__(self, path: str | None = None) -> None:
        self._sequence = 0
        self._socket = open_socket() if path is None else enter(path, open_socket)

    def close(self) -> None:
        """Close the socket, which also releases the namespace."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- devices ------------------------------------------------------------------------------------------------------

    def device(self, name: str) -> Device | None:
        """Return the device of this name, or None if it does not exist."""
        attributes = _attribute(_NAME, name.encode() + b"\0") + _attribute(_EXT_MASK, _SKIP_STATISTICS)
        try:
            messages = self._request(_GET_LINK, 0, _LINK.pack(0, 0, 0, 0, 0) + attributes)
        except OSError as error:
            if error.errno == errno.ENODEV:
                return None
            raise
        return next((_device(payload) for kind, payload in messages if kind == _NEW_LINK), None)

    def devices(self) -> list[Device]:
        """List the devices of the namespace."""
        mask = _attribute(_EXT_MASK, _SKIP_STATISTICS)
        messages = self._request(_GET_LINK, _DUMP, _LINK.pack(0, 0, 0, 0, 0) + mask)
        return [_device(payload) for kind, payload in messages if kind == _NEW_LINK]

    def set_up(self, index: int, up: bool) -> None:
        """Bring a device up or down."""
        self._change(index, b"", up)

    def rename(self, index: int, name: str) -> None:
        """Rename a device, which must be down."""
        self._change(index, _attribute(_NAME, name.encode() + b"\0"))

    def set_alias(self, index: int, alias: str) -> None:
        """Set the alias of a device; "" removes it."""
        self._change(index, _attribute(_ALIAS, alias.encode()))

    def set_mtu(self, index: int, mtu: int) -> None:
        """Set the MTU of a device in bytes."""
        self._change(index, _attribute(_MTU, struct.pack("=I", mtu)))

    def move(self, index: int, namespace: int) -> None:
        """Move a device to the namespace of this open file. The device keeps its name if the name is free there."""
        self._change(index, _attribute(_NAMESPACE_FD, struct.pack("=i", namespace)))

    def _change(self, index: int, attributes: bytes, up: bool | None = None) -> None:
        flags = 0 if up is None else _UP * up
        self._request(_NEW_LINK, _ACK, _LINK.pack(0, 0, index, flags, 0 if up is None else _UP) + attributes)

    # -- addresses and routes -----------------------------------------------------------------------------------------

    def add_address(self, index: int, address: bytes, prefix: int) -> None:
        """Add an address of 4 or 16 bytes to a device, without detection of duplicates."""
        family = socket.AF_INET if len(address) == 4 else socket.AF_INET6
        head = _ADDRESS_OF.pack(family, prefix, _NO_DUPLICATE_DETECTION * (len(address) == 16), 0, index)
        attributes = _attribute(_LOCAL, address) + _attribute(_ADDRESS, address)
        self._request(_NEW_ADDRESS, _ACK | _CREATE | _REPLACE, head + attributes)

    def records(self, index: int) -> list[Record]:
        """List the records that a device loses when it is moved: addresses, then routes that no address adds."""
        addresses = self._request(_GET_ADDRESS, _DUMP, _ADDRESS_OF.pack(0, 0, 0, 0, 0))
        records = [
            Record(kind, payload)
            for kind, payload in addresses
            if kind == _NEW_ADDRESS and _ADDRESS_OF.unpack_from(payload)[4] == index
        ]
        routes = self._request(_GET_ROUTE, _DUMP, bytes(_ROUTE_BYTES))
        for kind, payload in routes:
            if kind != _NEW_ROUTE or payload[_ROUTE_PROTOCOL] == _BY_KERNEL:
                continue
            out = dict(_attributes(payload, _ROUTE_BYTES)).get(_OUT_DEVICE)
            if out is not None and struct.unpack("=i", out)[0] == index:
                records.append(Record(kind, payload))
        return records

    def put_back(self, record: Record) -> None:
        """Add an address or a route again, unless it exists."""
        self._request(record.kind, _ACK | _CREATE | _REPLACE, record.payload)

    # -- the wire -----------------------------------------------------------------------------------------------------

    def _request(self, kind: int, flags: int, payload: bytes) -> list[tuple[int, bytes]]:
        """Send a request. Returns the messages of the answer as pairs of kind and body.

        Raises OSError if the kernel refuses the request, or does not answer in time.
        """
        self._sequence += 1
        self._socket.send(
            _HEADER.pack(_HEADER.size + len(payload), kind, flags | _REQUEST, self._sequence, 0) + payload
        )
        deadline = monotonic() + ANSWER_TIMEOUT_S
        answer: list[tuple[int, bytes]] = []
        while True:
            self._socket.settimeout(max(0.001, deadline - monotonic()))
            for sequence, message_flags, message_kind, body in _messages(self._socket.recv(1 << 16)):
                if sequence != self._sequence:
                    continue
                if message_kind in (_ERROR, _DONE):
                    _raise_error(message_flags, body)
                    return answer
                answer.append((message_kind, body))
                if not flags & (_DUMP | _ACK):
                    return answer


def open_socket() -> socket.socket:
    """Open a netlink socket whose errors are short and have a reason."""
    netlink_socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
    netlink_socket.bind((0, 0))
    netlink_socket.setsockopt(_NETLINK, _SHORT_ERRORS, 1)
    netlink_socket.setsockopt(_NETLINK, _WORDS_OF_ERRORS, 1)
    return netlink_socket


def _raise_error(flags: int, body: bytes) -> None:
    """Raise OSError if an answer is an error, with the kernel's message if there is one."""
    number = -struct.unpack_from("=i", body)[0] if len(body) >= 4 else 0
    if number:
        words = dict(_attributes(body, 4 + _HEADER.size)).get(_WORDS, b"") if flags & _HAS_WORDS else b""
        raise OSError(number, words.rstrip(b"\0").decode(errors="replace") or os.strerror(number))


def _messages(raw: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """The messages of one datagram: sequence, flags, kind, body."""
    at = 0
    while at + _HEADER.size <= len(raw):
        length, kind, flags, sequence, _ = _HEADER.unpack_from(raw, at)
        if length < _HEADER.size:
            return
        yield sequence, flags, kind, raw[at + _HEADER.size : at + length]
        at += (length + 3) & ~3


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def _attributes(payload: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    """The attributes after fixed fields of `at` bytes."""
    while at + 4 <= len(payload):
        length, kind = struct.unpack_from("=HH", payload, at)
        if length < 4:
            return
        yield kind & 0x3FFF, payload[at + 4 : at + length]
        at += (length + 3) & ~3


def _device(payload: bytes) -> Device:
    _, _, index, flags, _ = _LINK.unpack_from(payload)
    attributes = dict(_attributes(payload, _LINK.size))
    name, alias = (attributes.get(kind, b"").rstrip(b"\0").decode(errors="replace") for kind in (_NAME, _ALIAS))
    return Device(index, name, bool(flags & _UP), struct.unpack("=I", attributes.get(_MTU, bytes(4)))[0], alias)
