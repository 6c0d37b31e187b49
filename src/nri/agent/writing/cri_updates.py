"""Values written to containers' cgroups, sent to their runtime through the CRI so that its view stays correct.

Files are written first, in the order that the kernel needs; the runtime then sets the same value again, which changes
nothing. A value is sent once, and again after its file had to be written again. Where pods are known by the runtime
alone, requested resources are not sent, because an agent that starts later reads the kubelet's request there. A runtime
that does not answer is left alone for a minute.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

from nri.agent.model import CPUS, MEMORY_LIMIT, QUOTA, SHARES, Write
from nri.cri.client import CriClient
from nri.cri.pb import api_pb2 as pb
from nri.errors import NriError, RpcError
from nri.text import plain

__all__ = ["CriUpdates"]

_log = logging.getLogger(__name__)
#: The fields of the CRI by knob.
_FIELDS: Final = {
    SHARES: "cpu_shares",
    QUOTA: "cpu_quota",
    "cpu.cfs_period": "cpu_period",
    MEMORY_LIMIT: "memory_limit_in_bytes",
    CPUS: "cpuset_cpus",
    "cpuset.mems": "cpuset_mems",
}
_LISTS: Final = (CPUS, "cpuset.mems")
#: Knobs that a later agent reads the kubelet's request from, if pods are known by the runtime alone.
_REQUESTED_KNOBS: Final = frozenset({SHARES, QUOTA, MEMORY_LIMIT})
#: The last part of a container's cgroup, in which its id is.
_ID: Final = re.compile(r"(?:.*-)?([0-9a-f]{64})(?:\.scope)?")
_CALL_S: Final = 4.0
_PAUSE_S: Final = 60.0
#: The maximum number of values remembered as sent.
_MAX_VALUES: Final = 20_000


class CriUpdates:
    """Sends values to one runtime.

    Args:
        socket: its CRI socket.
        runtime_alone: whether pods are known by the runtime alone.
        now: monotonic seconds.
    """

    def __init__(self, socket: str, *, runtime_alone: bool = False, now: Callable[[], float] = time.monotonic) -> None:
        self._socket, self._now = socket, now
        self._knobs: Collection[str] = _FIELDS.keys() - (_REQUESTED_KNOBS if runtime_alone else ())
        self._client: CriClient | None = None
        self._told: dict[tuple[str, str], str] = {}
        self._deaf_until = 0.0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """The number of values remembered as sent."""
        return len(self._told)

    def tell(self, in_force: Iterable[Write]) -> None:
        """Send values in force, with one call for each container. Never raises, because the files are written."""
        with self._lock:
            new: dict[str, dict[str, str]] = {}
            for write in in_force:
                match = _ID.fullmatch(write.folder.rstrip("/").rpartition("/")[2])
                is_reportable = match is not None and write.knob in self._knobs and write.value
                if match and is_reportable and self._told.get((match[1], write.knob)) != write.value:
                    new.setdefault(match[1], {})[write.knob] = write.value
            for number, values in new.items():
                if self._now() < self._deaf_until:
                    return
                self._one(number, values)

    def forget(self, folder: str) -> None:
        """Forget what was sent of a container."""
        match = _ID.fullmatch(folder.rstrip("/").rpartition("/")[2])
        if match is not None:
            with self._lock:
                for knob in _FIELDS:
                    self._told.pop((match[1], knob), None)

    def _one(self, number: str, values: dict[str, str]) -> None:
        fields: dict[str, Any] = {
            _FIELDS[knob]: value if knob in _LISTS else int(value) for knob, value in values.items()
        }
        request = pb.UpdateContainerResourcesRequest(container_id=number, linux=pb.LinuxContainerResources(**fields))
        try:
            if self._client is None:
                self._client = CriClient(self._socket, option="--set pods.cri=PATH")
            self._client.call("UpdateContainerResources", request, _CALL_S)
        except RpcError as error:
            _log.warning("the runtime does not take %s of %s: %s", values, number[:12], plain(str(error), 200))
        except NriError as error:
            self._deaf_until = self._now() + _PAUSE_S
            _log.warning("values are in their cgroups, but not in the view of the runtime: %s", plain(str(error), 200))
            return
        if len(self._told) >= _MAX_VALUES:
            self._told.clear()
        self._told.update(((number, knob), value) for knob, value in values.items())
