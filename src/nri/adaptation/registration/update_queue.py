"""The queue of UpdateContainers: requests are accepted at any time; workers apply and then answer them.

The thread that reads a request may be in the middle of an event, so it only numbers the request and puts it into the
plugin's queue. Workers give the request to the runtime's callbacks, which may wait for the runtime's locks. Requests of
one plugin stay in order; once its queue is full, they are refused. Workers serve all plugins, so they never wait for a
plugin: the connection stores an answer that its plugin does not read, and stops reading from that plugin while too
many answers wait.
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

log = logging.getLogger("nri.adaptation")

#: A plugin's queue has at most this many requests.
MAX_QUEUED = 64
#: The requests in a plugin's queue have at most this many bytes together.
MAX_QUEUED_BYTES = 16 << 20
#: At most this many threads apply requests.
MAX_WORKERS = 4
#: A thread ends after this many seconds without work.
IDLE_S = 5.0


class UpdateQueue:
    """The queues of all plugins and the threads that process them.

    Args:
        updates: applies the requests.

    Attributes:
        queues: the numbered waiting requests of each plugin with a request in progress.
        workers, idle: the number of threads, and the number of threads without work.
    """

    def __init__(self, updates: PluginUpdates) -> None:
        self.updates = updates
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self.queues: dict[RemotePeer, deque[tuple[int, Request]]] = {}
        self._ready_peers: deque[RemotePeer] = deque()
        self.workers = self.idle = 0
        self._stopped = False

    def take(self, peer: RemotePeer, request: Request) -> object:
        """Accept a plugin's request, which is answered later. Raises RpcError if the queue is full."""
        number = next(ARRIVALS)
        with self._lock:
            if self._stopped:
                raise RpcError(Code.UNAVAILABLE, "the runtime is stopping")
            waiting = self.queues.get(peer)
            if waiting is not None:  # a worker serves this plugin
                _check_capacity(peer, waiting, request)
                waiting.append((number, request))
                return LATER
            self._ensure_workers(len(self._ready_peers) + 1)
            self.queues[peer] = deque(((number, request),))
            self._ready_peers.append(peer)
            self._work.notify()
        return LATER

    def _ensure_workers(self, count: int) -> None:
        """Start a worker if fewer than `count` are idle.

        Raises RpcError if there is no worker and none can be started.
        """
        if self.idle >= count or self.workers >= MAX_WORKERS:
            return
        try:
            threading.Thread(target=self._run, name=f"nri-updates-{self.workers + 1}", daemon=True).start()
        except RuntimeError:
            if not self.workers:
                raise RpcError(Code.RESOURCE_EXHAUSTED, "the runtime cannot start a thread to apply updates") from None
        else:
            self.workers += 1

    def _run(self) -> None:
        while True:
            with self._lock:
                peer = self._next_peer()
                if peer is None:
                    self.workers -= 1
                    return
                number, request = self.queues[peer].popleft()
            try:
                self._answer_request(peer, number, request)
            except Exception:  # otherwise the worker would end with requests unanswered
                log.exception("a request of plugin %s could not be answered", peer.qualified)
            with self._lock:
                # Only one request of a plugin is processed at a time: the plugin becomes ready again only now.
                if self.queues[peer]:
                    self._ready_peers.append(peer)
                    self._work.notify()
                else:
                    del self.queues[peer]

    def _next_peer(self) -> RemotePeer | None:
        while not self._ready_peers and not self._stopped:
            self.idle += 1
            woken = self._work.wait(IDLE_S)
            self.idle -= 1
            if not woken and not self._ready_peers:
                return None
        return None if self._stopped else self._ready_peers.popleft()

    def _answer_request(self, peer: RemotePeer, number: int, request: Request) -> None:
        endpoint = peer.endpoint
        max_entries = self.updates.max_entries()
        reason = limits.excess(m.UpdateContainersRequest, request.payload, max_entries) if max_entries else ""
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
        """Refuse further requests. Waiting requests are dropped with their connection."""
        with self._lock:
            self._stopped = True
            self._work.notify_all()


def _check_capacity(peer: RemotePeer, waiting: deque[tuple[int, Request]], request: Request) -> None:
    """Raise RpcError if a plugin's queue is full."""
    if len(waiting) >= MAX_QUEUED:
        raise RpcError(Code.RESOURCE_EXHAUSTED, f"plugin {peer.label} has {MAX_QUEUED} waiting updates already")
    if sum(len(queued.payload) for _, queued in waiting) + len(request.payload) > MAX_QUEUED_BYTES:
        text = f"plugin {peer.label} has {MAX_QUEUED_BYTES >> 20} MiB of waiting updates already"
        raise RpcError(Code.RESOURCE_EXHAUSTED, text)
