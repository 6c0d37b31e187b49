"""Containers that have ended by themselves, found in lists of containers and told to plugins.

Rules: the kubelet asks for a list of all containers about once a second, and gets it through the proxy: what it gets is
read along, after it has been passed on. While it does not ask, the proxy does. The runtime's stream of events is left
alone, because some runtimes give each event to one listener only. Next: `nri.proxy.events.containers`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from time import monotonic

from google.protobuf.message import DecodeError

from nri.cri.pb import api_pb2 as pb
from nri.errors import NriError
from nri.proxy.events.parts import Parts
from nri.proxy.passing import Call
from nri.proxy.state import CREATED, ContainerRecord

__all__ = ["Exits"]

_log = logging.getLogger("nri.proxy")


class Exits:
    """Looks for containers that have ended; `ended` tells plugins of one."""

    def __init__(self, parts: Parts, ended: Callable[[ContainerRecord], object]) -> None:
        self._parts, self._ended = parts, ended
        self._news = threading.Condition()
        self._list: bytes | None = None
        self._asked_at = monotonic()
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
            if not data:  # all containers
                self._asked_at = monotonic()
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
                    self._look(pb.ListContainersResponse.FromString(found))
                else:
                    self._asked_at = monotonic()
                    self._look(self._parts.backend.call("ListContainers", pb.ListContainersRequest()))
            except (NriError, DecodeError) as error:
                _log.debug("which containers have ended is not known: %s", error)
            except Exception:  # noqa: BLE001  one bad answer must not end the looking
                _log.exception("a list of containers could not be read")

    def _wait_s(self) -> float:
        return max(self._asked_at + self._parts.settings.poll_interval - monotonic(), 0.0)

    def _look(self, found: pb.ListContainersResponse) -> None:
        for each in found.containers:
            if each.state != pb.CONTAINER_EXITED:
                continue
            record = self._parts.book.container(each.id)
            if record is not None and record.told == CREATED:
                try:
                    with self._parts.domain.block(urgent=True):
                        self._ended(record)
                except NriError as error:  # one container must not keep the others' ends from being told
                    _log.debug("the end of container %s cannot be told: %s", each.id, error)
                except Exception:  # noqa: BLE001  nor a defect
                    _log.exception("the end of container %s could not be told", each.id)
