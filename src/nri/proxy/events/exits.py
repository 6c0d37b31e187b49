"""Find containers that have ended by themselves in lists of containers, and report them to plugins.

The kubelet lists all containers about once a second, and the proxy reads these lists. If the kubelet does not list
containers, the proxy requests a list. It does not use the runtime's event stream, because some runtimes send each event
to only one listener.
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

#: A failed report is tried again after this time in seconds, which doubles each time up to the maximum.
_RETRY_S, _MAX_RETRY_S = 1.0, 300.0

_log = logging.getLogger("nri.proxy")


class Exits:
    """Finds containers that have ended, and reports them to plugins.

    Attributes:
        asked_at: when the kubelet or the proxy last listed all containers, in monotonic seconds.
        retries: the reports that have failed, by the container's id for plugins.
    """

    def __init__(self, context: CallContext, containers: ContainerCalls) -> None:
        self.context, self._containers = context, containers
        self._changed = threading.Condition()
        self._list: bytes | None = None
        self.asked_at = self._listed_at = monotonic()
        self.retries: dict[str, _Retry] = {}
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="nri-proxy-exits", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    def list_containers(self, data: bytes, call: Call) -> bytes:
        """Pass a list of containers on, and check it afterwards."""
        answer = call.forward(data)
        with self._changed:
            self._list = answer
            if _is_of_all(data):
                self.asked_at = monotonic()
            self._changed.notify()
        return answer

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stopping or self._list is not None, self._wait_s())
                if self._stopping:
                    return
                data, self._list = self._list, None
            try:
                if data is not None:
                    self.check(decode_answer(pb.ListContainersResponse, data))
                else:
                    self.asked_at = self._listed_at = monotonic()
                    self.check(self.context.backend.call("ListContainers", pb.ListContainersRequest()))
            except NriError as error:
                _log.debug("cannot list containers: %s", error)
            except Exception:  # noqa: BLE001  one bad answer must not end the looking
                _log.exception("a list of containers could not be read")

    def _wait_s(self) -> float:
        at = self.asked_at + self.context.settings.poll_interval
        if self.retries:
            at = min(at, max(self._listed_at + _RETRY_S, min(retry.at for retry in self.retries.values())))
        return max(at - monotonic(), 0.0)

    def check(self, response: pb.ListContainersResponse) -> None:
        """Report the containers of a list that have ended."""
        for container in response.containers:
            if container.state != pb.CONTAINER_EXITED:
                continue
            store = self.context.store
            record = store.container(container.id)
            if record is None or record.reported_step != CREATED or start_key(record) in store.making:
                continue  # a container that ends while it is being started is reported after the start
            if self._is_due(record.id):
                self._report(record)
        obsolete = [name for name in self.retries if not self._is_awaited(name)]
        for name in obsolete:
            del self.retries[name]

    def _report(self, record: ContainerRecord) -> None:
        """Report the end of a container. A failure is tried again later and does not affect other containers."""
        try:
            with self.context.domain.block(urgent=True):
                self._containers.ended(record)
        except Exception as error:  # noqa: BLE001  a defect, too, is one container's
            retry = self.retries.setdefault(record.id, _Retry())
            if not retry.times:
                _log.warning(
                    "cannot report the end of container %s (%s) to plugins; retrying at increasing intervals: %s",
                    record.runtime_id, record.id, error, exc_info=not isinstance(error, NriError),
                )  # fmt: skip
            retry.failed()

    def _is_due(self, name: str) -> bool:
        retry = self.retries.get(name)
        return retry is None or retry.at <= monotonic()

    def _is_awaited(self, name: str) -> bool:
        record = self.context.store.named(name)
        return record is not None and record.reported_step == CREATED


class _Retry:
    """A failed report: the number of failures, and the time of the next attempt in monotonic seconds."""

    __slots__ = ("at", "times")

    def __init__(self) -> None:
        self.times = 0
        self.at = 0.0

    def failed(self) -> None:
        self.at = monotonic() + min(_RETRY_S * 2.0 ** min(self.times, 16), _MAX_RETRY_S)
        self.times += 1


def _is_of_all(data: bytes) -> bool:
    """Whether a request lists all containers: the kubelet sends an empty filter."""
    try:
        return not pb.ListContainersRequest.FromString(data).filter.ByteSize()
    except DecodeError:
        return False
