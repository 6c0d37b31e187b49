"""Updates and evictions that plugins ask for by themselves: taken at any time, applied by workers, answered when done.

The thread that reads such a request may be in the middle of an event, so it only puts it into the plugin's queue.
Workers hand it to the runtime's callbacks, which may wait for the runtime's locks; an event never waits for them.
Requests of one plugin stay in order; a plugin that asks faster than the runtime applies is refused once its queue is
full. Workers serve all plugins, so none of them waits for one: an answer that its plugin does not read is left to the
connection, which writes it as soon as it can and reads nothing from that plugin while too much of it waits. Next:
`nri.adaptation.registration.plugin_updates`, which applies what was taken.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import TYPE_CHECKING

from nri.adaptation.merge import limits
from nri.api import messages as m
from nri.errors import NriError, RpcError, describe
from nri.ttrpc import LATER, Code, Request

if TYPE_CHECKING:
    from collections.abc import Callable

    from nri.adaptation.peers.remote import RemotePeer

__all__ = ["UpdateQueue"]

log = logging.getLogger("nri.adaptation")

#: Requests of one plugin that may wait, and how many bytes they may hold together.
QUEUE = 64
QUEUE_BYTES = 16 << 20
#: Threads at most; they end when there is nothing to do for a while.
WORKERS = 4
IDLE_S = 5.0


class UpdateQueue:
    """The queues of all plugins and the threads that empty them.

    Args:
        apply: does what a request asks for, and returns the updates that failed.
        most: tells how many entries a request may have; 0 for no limit.
    """

    def __init__(
        self,
        apply: Callable[[RemotePeer, m.UpdateContainersRequest], list[m.ContainerUpdate]],
        most: Callable[[], int] = lambda: 0,
    ) -> None:
        self._apply = apply
        self._most = most
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._queues: dict[RemotePeer, deque[Request]] = {}
        self._ready: deque[RemotePeer] = deque()
        self._workers = self._idle = 0
        self._stopped = False

    def take(self, peer: RemotePeer, request: Request) -> object:
        """Accept a plugin's request; it is answered later. RpcError if there is no room."""
        with self._lock:
            if self._stopped:
                raise RpcError(Code.UNAVAILABLE, "the runtime is stopping")
            waiting = self._queues.get(peer)
            if waiting is not None:  # a worker is at it, or about to be
                _check_room(peer, waiting, request)
                waiting.append(request)
                return LATER
            self._staff(len(self._ready) + 1)
            self._queues[peer] = deque((request,))
            self._ready.append(peer)
            self._work.notify()
        return LATER

    def _staff(self, wanted: int) -> None:
        """See that so many workers are free, as far as there may be so many. RpcError if there is none at all."""
        if self._idle >= wanted or self._workers >= WORKERS:
            return
        try:
            threading.Thread(target=self._run, name=f"nri-updates-{self._workers + 1}", daemon=True).start()
        except RuntimeError:
            if not self._workers:
                raise RpcError(Code.RESOURCE_EXHAUSTED, "the runtime has no thread left to apply updates") from None
        else:
            self._workers += 1

    def _run(self) -> None:
        while True:
            with self._lock:
                peer = self._next()
                if peer is None:
                    self._workers -= 1
                    return
                request = self._queues[peer].popleft()
            self._answer(peer, request)
            with self._lock:
                # One request of a plugin at a time: it becomes ready again only now.
                if self._queues[peer]:
                    self._ready.append(peer)
                    self._work.notify()
                else:
                    del self._queues[peer]

    def _next(self) -> RemotePeer | None:
        while not self._ready and not self._stopped:
            self._idle += 1
            woken = self._work.wait(IDLE_S)
            self._idle -= 1
            if not woken and not self._ready:
                return None
        return None if self._stopped else self._ready.popleft()

    def _answer(self, peer: RemotePeer, request: Request) -> None:
        endpoint = peer.endpoint
        most = self._most()
        reason = limits.too_much(m.UpdateContainersRequest, request.payload, most) if most else ""
        if reason:
            peer.last_error = f"plugin {peer.label}: its request UpdateContainers {reason}"
            endpoint.reply_error(request, Code.RESOURCE_EXHAUSTED, peer.last_error)
            return
        try:
            message = m.UpdateContainersRequest.FromString(request.payload)
        except Exception as error:  # noqa: BLE001 - the decoder's errors have no common base
            endpoint.reply_error(request, Code.INTERNAL, f"ttrpc: error unmarshalling payload: {error}", patient=False)
            return
        try:
            reply = m.UpdateContainersResponse(failed=self._apply(peer, message)).SerializeToString()
        except RpcError as error:
            endpoint.reply_error(request, error.code, error.message, patient=False)
        except NriError as error:
            endpoint.reply_error(request, Code.UNKNOWN, str(error), patient=False)
        except Exception as error:
            log.exception("the runtime failed to apply updates of plugin %s", peer.qualified)
            endpoint.reply_error(request, Code.UNKNOWN, describe(error), patient=False)
        else:
            endpoint.reply(request, reply, patient=False)

    def stop(self) -> None:
        """Take no more; what waits is dropped with its connection."""
        with self._lock:
            self._stopped = True
            self._work.notify_all()


def _check_room(peer: RemotePeer, waiting: deque[Request], request: Request) -> None:
    """Raise RpcError if a plugin's queue has no room for one more request."""
    if len(waiting) >= QUEUE:
        raise RpcError(Code.RESOURCE_EXHAUSTED, f"{QUEUE} updates of plugin {peer.label} are waiting already")
    if sum(len(each.payload) for each in waiting) + len(request.payload) > QUEUE_BYTES:
        text = f"updates of plugin {peer.label} that are waiting hold {QUEUE_BYTES >> 20} MiB already"
        raise RpcError(Code.RESOURCE_EXHAUSTED, text)
