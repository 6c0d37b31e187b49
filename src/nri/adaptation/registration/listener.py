"""The socket for external plugins: accept connections, check their user, close those that do not register in time.

Runs in one thread. An unregistered connection costs only a descriptor: the monitor reads it, and this thread closes it
when its time is up. If too many connections wait, the oldest is closed: a plugin registers within milliseconds, so the
oldest connections will probably never register.
"""

from __future__ import annotations

import logging
import os
import select
import threading
from time import monotonic
from typing import TYPE_CHECKING

from nri.adaptation.peers.peer import EXTERNAL
from nri.adaptation.peers.remote import RemotePeer
from nri.adaptation.peers.state import Signal, State
from nri.unix import UnixListener, credentials, make_folder

if TYPE_CHECKING:
    import socket
    from collections.abc import Collection, Sequence

    from nri.adaptation.audit.reporting import Reporting
    from nri.adaptation.registration.registry import Registry
    from nri.ttrpc import Interceptor

#: At most this many connections may be in their handshake.
MAX_UNSETTLED = 64


log = logging.getLogger("nri.adaptation")

#: The pause after a connection that could not be accepted, in seconds.
_RETRY_DELAY_S = 0.1


class Listener:
    """The listening socket at `path`, and the thread that accepts connections until `stop`.

    Args:
        path: the socket, created by `nri.unix`. A missing folder is created with mode 0700, or 0711 if other users may
            connect.
        allowed_uids: users that may connect, in addition to root and the runtime's user.
        registration_timeout_s: the time between connecting and RegisterPlugin, in seconds.
        replace_live: replace the socket even if another process listens on it.
    """

    def __init__(
        self,
        path: str,
        registry: Registry,
        allowed_uids: Collection[int],
        registration_timeout_s: float,
        reporting: Reporting,
        interceptors: Sequence[Interceptor] = (),
        *,
        replace_live: bool = False,
    ) -> None:
        self.path = path
        self._replace_live = replace_live
        self._registry = registry
        self._allowed = {0, os.geteuid(), *allowed_uids}
        self._timeout_s = registration_timeout_s
        self._reporting = reporting
        self._interceptors = interceptors
        self._listener: UnixListener | None = None
        self._thread: threading.Thread | None = None
        self._wake_read, self._wake_write = -1, -1

    def start(self) -> None:
        """Listen. Raises OSError if the socket cannot be created."""
        # Other users may enter the folder and connect, but not list the folder; `accept` checks their user.
        allows_others = bool(self._allowed - {0, os.geteuid()})
        folder_mode, mode = (0o711, 0o666) if allows_others else (0o700, 0o600)
        make_folder(self.path, folder_mode)
        listening = UnixListener(self.path, mode=mode, replace_live=self._replace_live)
        try:
            listening.socket.setblocking(False)
            self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        except BaseException:
            listening.close()
            raise
        self._listener = listening
        thread = threading.Thread(target=self._run, name="nri-listener", daemon=True)
        thread.start()
        self._thread = thread

    def _run(self) -> None:
        assert self._listener is not None
        listening = self._listener.socket
        poll = select.poll()
        poll.register(listening, select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        while True:
            try:
                ready = {fd for fd, _ in poll.poll(self._expire() * 1000)}
                if self._wake_read in ready:
                    return
                if ready:
                    self._accept(listening)
            except Exception:  # the error of one connection must not keep other plugins out
                log.exception("a plugin's connection could not be accepted")
                threading.Event().wait(_RETRY_DELAY_S)

    def _accept(self, listening: socket.socket) -> None:
        try:
            sock, _ = listening.accept()
        except BlockingIOError:
            return
        except OSError as error:  # no descriptors left: waiting connections are accepted later
            self._reporting.refused("not accepted", "cannot accept a plugin's connection: %s", error.strerror)
            threading.Event().wait(_RETRY_DELAY_S)
            return
        self._admit_connection(sock)

    def _expire(self) -> float:
        """Close connections whose time is up. Returns the seconds until the time of the next connection is up.

        At most the timeout, because a connection that `Adaptation.connect` adds does not wake this thread.
        """
        now = monotonic()
        next_s = self._timeout_s
        for peer in self._registry.unsettled():
            if peer.state is not State.CONNECTED or peer.kind != EXTERNAL:
                continue
            remaining_s = peer.since + self._timeout_s - now
            if remaining_s <= 0:
                peer.endpoint.poll()  # the registration may have arrived, but not been read
                if peer.state is not State.CONNECTED:
                    continue
                self._reporting.refused("not registered", "%s: plugin registration timed out", peer.qualified)
                peer.signal(Signal.FATAL, "plugin registration timed out")
            else:
                next_s = min(next_s, remaining_s)
        return next_s + 0.01

    def _admit_connection(self, sock: socket.socket) -> None:
        process = credentials(sock)
        if process.uid not in self._allowed:
            text = "refused a plugin's connection: user %d (process %d) is not in allowed_uids"
            self._reporting.refused("user not allowed", text, process.uid, process.pid)
            sock.close()
            return
        waiting = [peer for peer in self._registry.unsettled() if peer.kind == EXTERNAL]
        if len(waiting) >= MAX_UNSETTLED:
            silent = next((peer for peer in waiting if peer.state is State.CONNECTED), None)
            if silent is None:
                text = "refused a plugin's connection: %d other plugins are joining"
                self._reporting.refused("too many joining", text, len(waiting))
                sock.close()
                return
            text = "%s: closed, because too many connections do not register"
            self._reporting.refused("not registered", text, silent.qualified)
            silent.signal(Signal.FATAL, "too many connections that do not register")
        self._registry.connect(
            RemotePeer(
                self._registry, sock, EXTERNAL, pid=process.pid, uid=process.uid, interceptors=self._interceptors
            )
        )

    def stop(self) -> None:
        """Stop listening and remove the socket."""
        if self._listener is None:
            return
        os.write(self._wake_write, b"x")
        if self._thread is not None:
            self._thread.join(5.0)
        self._listener.close()
        self._listener = None
        os.close(self._wake_read)
        os.close(self._wake_write)
