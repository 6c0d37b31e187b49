"""Updates and evictions that plugins ask for by themselves: taken at any time, applied by workers, answered when done.

The thread that reads such a request may be in the middle of an event, so it only puts it into the plugin's queue.
Workers hand it to the runtime's callbacks, which may wait for the runtime's locks; an event never waits for them.
Each gets its number there, while no other thread reads from the plugin, and so keeps its place among the plugin's
answers. Requests of one plugin stay in order; a plugin that asks faster than the runtime applies is refused once its
queue is full. Workers serve all plugins, so none of them waits for one: an answer that its plugin does not read is
left to the connection, which writes it as soon as it can and reads nothing from that plugin while too much of it
waits.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import TYPE_CHECKING

from nri.adaptation.merge import limits
from nri.api import messages as m
from nri.errors import NriError, RpcError, describe
from nri.ttrpc import Code, Request
from nri.ttrpc.endpoint import LATER
from nri.ttrpc.waiters import ARRIVALS

if TYPE_CHECKING:
    from nri.adaptation.peers.remote import RemotePeer
    from nri.adaptation.registration.plugin_updates import PluginUpdates

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
        updates: does what a request asks for.

    Attributes:
        queues: the numbered requests that wait, of each plugin that is at work.
        workers, idle: the number of threads, and of those without work.
    """

    def __init__(self, updates: PluginUpdates) -> None:
        self.updates = updates
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self.queues: dict[RemotePeer, deque[tuple[int, Request]]] = {}
        self._ready: deque[RemotePeer] = deque()
        self.workers = self.idle = 0
        self._stopped = False

    def take(self, peer: RemotePeer, request: Request) -> object:
        """Accept a plugin's request; it is answered later. RpcError if there is no room."""
        number = next(ARRIVALS)
        with self._lock:
            if self._stopped:
                raise RpcError(Code.UNAVAILABLE, "the runtime is stopping")
            waiting = self.queues.get(peer)
            if waiting is not None:  # a worker is at it, or about to be
                _check_room(peer, waiting, request)
                waiting.append((number, request))
                return LATER
            self._staff(len(self._ready) + 1)
            self.queues[peer] = deque(((number, request),))
            self._ready.append(peer)
            self._work.notify()
        return LATER

    def _staff(self, wanted: int) -> None:
        """See that so many workers are free, as far as there may be so many. RpcError if there is none at all."""
        if self.idle >= wanted or self.workers >= WORKERS:
            return
        try:
            threading.Thread(target=self._run, name=f"nri-updates-{self.workers + 1}", daemon=True).start()
        except RuntimeError:
            if not self.workers:
                raise RpcError(Code.RESOURCE_EXHAUSTED, "the runtime has no thread left to apply updates") from None
        else:
            self.workers += 1

    def _run(self) -> None:
        while True:
            with self._lock:
                peer = self._next()
                if peer is None:
                    self.workers -= 1
                    return
                number, request = self.queues[peer].popleft()
            try:
                self._answer(peer, number, request)
            except Exception:  # else this worker would be missing, and the plugin's other requests never answered
                log.exception("a request of plugin %s could not be answered", peer.qualified)
            with self._lock:
                # One request of a plugin at a time: it becomes ready again only now.
                if self.queues[peer]:
                    self._ready.append(peer)
                    self._work.notify()
                else:
                    del self.queues[peer]

    def _next(self) -> RemotePeer | None:
        while not self._ready and not self._stopped:
            self.idle += 1
            woken = self._work.wait(IDLE_S)
            self.idle -= 1
            if not woken and not self._ready:
                return None
        return None if self._stopped else self._ready.popleft()

    def _answer(self, peer: RemotePeer, number: int, request: Request) -> None:
        endpoint = peer.endpoint
        most = self.updates.most()
        reason = limits.too_much(m.UpdateContainersRequest, request.payload, most) if most else ""
        if reason:
            peer.last_error = f"plugin {peer.label}: its request UpdateContainers {reason}"
            endpoint.reply_error(request, Code.RESOURCE_EXHAUSTED, peer.last_error, patient=False)
            return
        try:
            message = m.UpdateContainersRequest.FromString(request.payload)
        except Exception as error:  # noqa: BLE001 - the decoder's errors have no common base
            endpoint.reply_error(request, Code.INTERNAL, f"ttrpc: error unmarshalling payload: {error}", patient=False)
            return
        try:
            reply = m.UpdateContainersResponse(
                failed=self.updates.unsolicited(peer, message, number)
            ).SerializeToString()
        except RpcError as error:
            endpoint.reply_error(request, error.code, error.message, patient=False)
        except NriError as error:
            endpoint.reply_error(request, Code.UNKNOWN, error.whole_text, patient=False)
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


def _check_room(peer: RemotePeer, waiting: deque[tuple[int, Request]], request: Request) -> None:
    """Raise RpcError if a plugin's queue has no room for one more request."""
    if len(waiting) >= QUEUE:
        raise RpcError(Code.RESOURCE_EXHAUSTED, f"{QUEUE} updates of plugin {peer.label} are waiting already")
    if sum(len(each.payload) for _, each in waiting) + len(request.payload) > QUEUE_BYTES:
        text = f"updates of plugin {peer.label} that are waiting hold {QUEUE_BYTES >> 20} MiB already"
        raise RpcError(Code.RESOURCE_EXHAUSTED, text)
