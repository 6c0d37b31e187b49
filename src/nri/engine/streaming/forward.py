"""A session of port forwarding: one thread that transfers bytes between the client and ports of a pod.

Connecting takes another thread, which enters the pod's network namespace and then ends. Each side is read only as fast
as the other takes the bytes. One slow connection blocks the others once a megabyte waits for it, because the client's
protocol has no other way to stop it.
"""

from __future__ import annotations

import os
import queue
import select
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

from nri.engine.streaming.channels import (
    ClientGone,
    ForwardChannels,
    PortClosed,
    PortData,
    PortHalfClosed,
    PortOpened,
)
from nri.engine.streaming.link import CHUNK_BYTES, Limits, Link, Poller
from nri.engine.support.errors import EngineError
from nri.engine.support.kernel import CLONE_NEWNET, setns
from nri.errors import describe
from nri.threads import run_on_new_thread

_TICK_S = 5.0


class _Port:
    """A connection: its socket, once it is connected, and the bytes that are not sent yet."""

    __slots__ = ("inbox", "input_ended", "output_ended", "shut", "socket")

    def __init__(self) -> None:
        self.socket: socket.socket | None = None
        self.inbox = bytearray()
        self.input_ended = self.output_ended = self.shut = False


class ForwardSession:
    """The state of one session. `connect` connects to a port, or raises NriError or OSError."""

    def __init__(
        self,
        link: Link,
        poller: Poller,
        channels: ForwardChannels,
        connect: Callable[[int], socket.socket],
        limits: Limits,
    ) -> None:
        self._link, self._poller, self._channels, self._limits = link, poller, channels, limits
        self._connect = connect
        self._ports: dict[str, _Port] = {}
        self._results: queue.SimpleQueue[tuple[str, _Port, socket.socket | str]] = queue.SimpleQueue()
        self._wake_up = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._closed = False
        self._lock = threading.Lock()
        self._client_is_gone = False

    def run(self, first: bytes) -> None:
        """Serve the client. `first` has the bytes that were received so far.

        Raises RemoteProtocolError if the client violates the protocol, and Stopped if the server is being stopped.
        """
        try:
            self._receive(first)
            while not (self._client_is_gone or self._link.lost or self._channels.over):
                idle = self._link.last_traffic + self._limits.idle_s - time.monotonic()
                if idle <= 0:
                    break
                read = self._can_receive()
                self._turn(self._poller.wait(self._masks(read=read), min(idle, _TICK_S)), read=read)
            self._channels.finish()
            self._link.send(self._channels.take())
        finally:
            self._close_ports()

    def _close_ports(self) -> None:
        with self._lock:
            self._closed = True
            while not self._results.empty():
                result = self._results.get()[2]
                if isinstance(result, socket.socket):
                    result.close()
            os.close(self._wake_up)
        for key in [*self._ports]:
            self._close(key)

    def _can_receive(self) -> bool:
        """Return whether more bytes can be received from the client."""
        waiting, limit = [len(port.inbox) for port in self._ports.values()], self._limits.input_bytes
        full = max(waiting, default=0) >= limit or sum(waiting) >= 8 * limit
        return not full and self._link.waiting < self._limits.answers_bytes

    def _masks(self, *, read: bool) -> dict[int, int]:
        masks = {self._wake_up: select.POLLIN, self._link.fileno(): self._link.mask(read=read)}
        output = self._link.waiting < self._limits.output_bytes
        for key, port in self._ports.items():
            if port.socket is None:
                continue
            mask = select.POLLOUT if port.inbox else 0
            if output and not port.output_ended and self._channels.send_window(key):
                mask |= select.POLLIN
            if mask:
                masks[port.socket.fileno()] = mask
        return masks

    def _turn(self, ready: dict[int, int], *, read: bool) -> None:
        if self._wake_up in ready:
            self._take_results()
        self._receive(self._link.receive(ready, read=read))
        for key, port in [*self._ports.items()]:
            if port.socket is not None and (events := ready.get(port.socket.fileno(), 0)):
                self._transfer(key, port, events)
        self._channels.expire(time.monotonic())
        self._link.send(self._channels.take())

    def _receive(self, data: bytes) -> None:
        for event in self._channels.receive(data):
            if isinstance(event, ClientGone):
                self._client_is_gone = True
            elif isinstance(event, PortOpened):
                self._open(event)
            elif isinstance(event, PortClosed):
                self._close(event.key)
            elif port := self._ports.get(event.key):
                if isinstance(event, PortData):
                    self._receive_data(event, port)
                elif isinstance(event, PortHalfClosed):
                    port.input_ended = True
                    self._end_direction(event.key, port)
            elif isinstance(event, PortData):
                self._channels.consumed(event.key, len(event.data))
        self._link.send(self._channels.take())

    def _receive_data(self, event: PortData, port: _Port) -> None:
        if port.shut:
            self._channels.consumed(event.key, len(event.data))
            return
        port.inbox += event.data
        if port.socket is not None:
            self._write(event.key, port)

    # --- connections ---

    def _open(self, event: PortOpened) -> None:
        port = self._ports[event.key] = _Port()
        arguments = (event.key, port, event.port)
        try:
            threading.Thread(target=self._connect_port, args=arguments, name="nri-engine-forward", daemon=True).start()
        except RuntimeError as error:  # no thread can be started now
            self._results.put((event.key, port, str(error)))
            os.eventfd_write(self._wake_up, 1)

    def _connect_port(self, key: str, port: _Port, number: int) -> None:
        """Connect to the port. This runs on a separate thread."""
        result: socket.socket | str
        try:
            result = self._connect(number)
            result.setblocking(False)
        except Exception as error:  # noqa: BLE001  the waiting client has to receive it
            result = describe(error)
        with self._lock:
            if not self._closed:
                self._results.put((key, port, result))
                os.eventfd_write(self._wake_up, 1)
            elif isinstance(result, socket.socket):
                result.close()

    def _take_results(self) -> None:
        os.eventfd_read(self._wake_up)
        while not self._results.empty():
            key, port, result = self._results.get()
            if self._ports.get(key) is not port:  # the client has closed it meanwhile
                if isinstance(result, socket.socket):
                    result.close()
            elif isinstance(result, str):
                self._close(key, f"error forwarding: {result}")
            else:
                port.socket = result
                self._write(key, port)

    def _transfer(self, key: str, port: _Port, events: int) -> None:
        if events & select.POLLOUT and port.inbox:
            self._write(key, port)
        if events & ~select.POLLOUT and self._ports.get(key) is port and not port.output_ended:
            self._read(key, port)

    def _read(self, key: str, port: _Port) -> None:
        assert port.socket is not None
        send_window = self._channels.send_window(key)
        if not send_window:
            return
        try:
            data = port.socket.recv(min(CHUNK_BYTES, send_window))
        except BlockingIOError:
            return
        except OSError:  # no error, because a Go client would close all of its connections
            self._close(key)
            return
        if data:
            self._channels.send(key, data)
            return
        port.output_ended = True
        self._channels.end(key)
        if self._channels.halves:
            self._end_direction(key, port)
        else:
            self._close(key)

    def _write(self, key: str, port: _Port) -> None:
        assert port.socket is not None
        try:
            while port.inbox:
                sent = port.socket.send(memoryview(port.inbox)[: 4 * CHUNK_BYTES])
                del port.inbox[:sent]
                self._channels.consumed(key, sent)
        except BlockingIOError:
            return
        except OSError:  # the program no longer reads, but may still write
            self._channels.consumed(key, len(port.inbox))
            port.inbox.clear()
            port.shut = True
        self._end_direction(key, port)

    def _end_direction(self, key: str, port: _Port) -> None:
        """Pass on the end of a direction. Close the connection if both directions have ended."""
        if port.socket is None:
            return
        if port.input_ended and not port.inbox and not port.shut:
            port.shut = True
            try:
                port.socket.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # the program has closed the connection, which the next read reports
        if port.output_ended and (port.shut or not port.inbox) and port.input_ended:
            self._close(key)

    def _close(self, key: str, error: str = "") -> None:
        port = self._ports.pop(key, None)
        if port is not None and port.socket is not None:
            port.socket.close()
        self._channels.close(key, error)


CONNECT_TIMEOUT_S = 10.0
_LOOPBACKS = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))


def connect_port(namespace: Path | None, port: int, timeout_s: float = CONNECT_TIMEOUT_S) -> socket.socket:
    """Connect to a port on the loopback interface of a network namespace, or of the host if `namespace` is None.

    The socket is blocking. IPv4 is tried before IPv6, as in other engines. Raises EngineError.
    """
    connections: list[socket.socket] = []
    errors: list[OSError] = []
    descriptor = -1
    try:
        if namespace is not None:
            descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
        run_on_new_thread(lambda: _connect(descriptor, port, timeout_s, connections, errors), "nri-engine-port")
    except OSError as error:
        errors.append(error)
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    if connections:
        return connections[0]
    reasons = ", ".join(dict.fromkeys(error.strerror or str(error) for error in errors))
    raise EngineError(f"cannot connect to port {port}: {reasons}")


def _connect(
    namespace: int, port: int, timeout_s: float, connections: list[socket.socket], errors: list[OSError]
) -> None:
    """Connect on a separate thread, which moves to the network namespace, if there is one."""
    try:
        if namespace >= 0:
            setns(namespace, CLONE_NEWNET)
    except OSError as error:
        errors.append(error)
        return
    for family, address in _LOOPBACKS:
        try:
            connection = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        except OSError as error:  # a kernel without IPv6
            errors.append(error)
            continue
        try:
            connection.settimeout(timeout_s)
            connection.connect((address, port))
            connection.settimeout(None)
        except OSError as error:
            connection.close()
            errors.append(error)
        else:
            connections.append(connection)
            return
