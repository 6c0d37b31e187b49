"""Containers that have ended by themselves, found in lists of containers and told to plugins.

Rules: the kubelet asks for a list of all containers about once a second, and gets it through the proxy: what it gets is
read along, after it has been passed on. While it does not ask, the proxy does. The runtime's stream of events is left
alone, because some runtimes give each event to one listener only. An end that cannot be reported is tried again, less
and less often, and said once as a warning. Next: `nri.proxy.events.containers`.
"""

from __future__ import annotations

import logging
import threading
from time import monotonic

from google.protobuf.message import DecodeError

from nri.cri.client import decode_answer
from nri.cri.pb import api_pb2 as pb
from nri.errors import NriError
from nri.proxy.events.adoption import start_key
from nri.proxy.events.call_context import CallContext
from nri.proxy.events.containers import ContainerCalls
from nri.proxy.passing import Call
from nri.proxy.state import CREATED, ContainerRecord

__all__ = ["Exits"]

#: An end that could not be reported is tried again after so many seconds, and then after twice as many, up to the
#: second.
_AGAIN_S, _AGAIN_AT_MOST_S = 1.0, 300.0

_log = logging.getLogger("nri.proxy")


class Exits:
    """Looks for containers that have ended; `containers` tells plugins of one.

    Attributes:
        context: everything that a call on a container needs.
        asked_at: when the kubelet, or else the proxy, asked for all containers, in monotonic seconds.
        retries: the ends of which plugins could not be informed yet, by the container's name.
    """

    def __init__(self, context: CallContext, containers: ContainerCalls) -> None:
        self.context, self._containers = context, containers
        self._news = threading.Condition()
        self._list: bytes | None = None
        self.asked_at = self._own_at = monotonic()
        self.retries: dict[str, _Retry] = {}
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="nri-proxy-exits", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """End it."""
        with self._news:
            self._stopping = True
            self._news.notify()
        if self._thread.is_alive():
            self._thread.join()

    def list_containers(self, data: bytes, call: Call) -> bytes:
        """Pass a list of containers on, and look at it afterwards."""
        answer = call.forward(data)
        with self._news:
            self._list = answer
            if _is_of_all(data):
                self.asked_at = monotonic()
            self._news.notify()
        return answer

    def _run(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._stopping or self._list is not None, self._wait_s())
                if self._stopping:
                    return
                found, self._list = self._list, None
            try:
                if found is not None:
                    self.look(decode_answer(pb.ListContainersResponse, found))
                else:
                    self.asked_at = self._own_at = monotonic()
                    self.look(self.context.backend.call("ListContainers", pb.ListContainersRequest()))
            except NriError as error:
                _log.debug("which containers have ended is not known: %s", error)
            except Exception:  # noqa: BLE001  one bad answer must not end the looking
                _log.exception("a list of containers could not be read")

    def _wait_s(self) -> float:
        at = self.asked_at + self.context.settings.poll_interval
        if self.retries:
            at = min(at, max(self._own_at + _AGAIN_S, min(each.at for each in self.retries.values())))
        return max(at - monotonic(), 0.0)

    def look(self, found: pb.ListContainersResponse) -> None:
        """Tell plugins of the containers of a list that have ended."""
        for each in found.containers:
            if each.state != pb.CONTAINER_EXITED:
                continue
            store = self.context.store
            record = store.container(each.id)
            if record is None or record.reported != CREATED or start_key(record) in store.making:
                continue  # one that has ended in its start is reported after that
            if self._is_due(record.id):
                self._tell(record)
        gone = [name for name in self.retries if not self._is_awaited(name)]
        for name in gone:
            del self.retries[name]

    def _tell(self, record: ContainerRecord) -> None:
        """Tell of one end; one that fails keeps no other's from being told."""
        try:
            with self.context.domain.block(urgent=True):
                self._containers.ended(record)
        except Exception as error:  # noqa: BLE001  a defect, too, is one container's
            retry = self.retries.setdefault(record.id, _Retry())
            if not retry.times:
                _log.warning(
                    "the end of container %s (%s) cannot be reported to plugins; tried again less and less often: %s",
                    record.runtime_id, record.id, error, exc_info=not isinstance(error, NriError),
                )  # fmt: skip
            retry.failed()

    def _is_due(self, name: str) -> bool:
        retry = self.retries.get(name)
        return retry is None or retry.at <= monotonic()

    def _is_awaited(self, name: str) -> bool:
        record = self.context.store.named(name)
        return record is not None and record.reported == CREATED


class _Retry:
    """An end that could not be reported: how often that failed, and when it is tried again, in monotonic seconds."""

    __slots__ = ("at", "times")

    def __init__(self) -> None:
        self.times = 0
        self.at = 0.0

    def failed(self) -> None:
        self.at = monotonic() + min(_AGAIN_S * 2.0 ** min(self.times, 16), _AGAIN_AT_MOST_S)
        self.times += 1


def _is_of_all(data: bytes) -> bool:
    """Whether a request for a list wants all containers: the kubelet sends a filter with nothing in it."""
    try:
        return not pb.ListContainersRequest.FromString(data).filter.ByteSize()
    except DecodeError:
        return False
