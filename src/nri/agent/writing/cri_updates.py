"""Report values in containers' cgroups to the runtime through the CRI, so that the runtime's view stays correct.

Files are written first, in the order that the kernel requires. The runtime then sets the same value again, without
effect. A value is sent once, and again after its file had to be written again. If the runtime is the only source of
pods, requested resources are not sent, because an agent that starts later reads the kubelet's request from the runtime.
After a timeout the runtime gets no updates for a minute.
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

_log = logging.getLogger(__name__)
#: The CRI field of each knob.
_FIELDS: Final = {
    SHARES: "cpu_shares",
    QUOTA: "cpu_quota",
    "cpu.cfs_period": "cpu_period",
    MEMORY_LIMIT: "memory_limit_in_bytes",
    CPUS: "cpuset_cpus",
    "cpuset.mems": "cpuset_mems",
}
_LISTS: Final = (CPUS, "cpuset.mems")
#: Knobs with the kubelet's request, which a later agent reads if the runtime is the only source of pods.
_REQUESTED_KNOBS: Final = frozenset({SHARES, QUOTA, MEMORY_LIMIT})
#: The name of a container's cgroup, which contains the id of the container.
_ID: Final = re.compile(r"(?:.*-)?([0-9a-f]{64})(?:\.scope)?")
#: The maximum time of a call, in seconds.
_CALL_S: Final = 4.0
#: The pause after a failed call, in seconds.
_PAUSE_S: Final = 60.0
#: The maximum number of remembered values that were sent.
_MAX_VALUES: Final = 20_000


class CriUpdates:
    """Reports values to one runtime.

    Args:
        socket: the CRI socket of the runtime.
        runtime_alone: whether the runtime is the only source of pods.
        now: returns monotonic seconds.
    """

    def __init__(self, socket: str, *, runtime_alone: bool = False, now: Callable[[], float] = time.monotonic) -> None:
        self._socket, self._clock = socket, now
        self._knobs: Collection[str] = _FIELDS.keys() - (_REQUESTED_KNOBS if runtime_alone else ())
        self._client: CriClient | None = None
        self._sent_values: dict[tuple[str, str], str] = {}
        self._deaf_until = 0.0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """The number of remembered values that were sent."""
        return len(self._sent_values)

    def tell(self, in_force: Iterable[Write]) -> None:
        """Send values in force, with one call for each container. Errors are only logged: the files are written."""
        with self._lock:
            new: dict[str, dict[str, str]] = {}
            for write in in_force:
                match = _ID.fullmatch(write.folder.rstrip("/").rpartition("/")[2])
                is_reportable = match is not None and write.knob in self._knobs and write.value
                if match and is_reportable and self._sent_values.get((match[1], write.knob)) != write.value:
                    new.setdefault(match[1], {})[write.knob] = write.value
            for number, values in new.items():
                if self._clock() < self._deaf_until:
                    return
                self._update_container(number, values)

    def forget(self, folder: str) -> None:
        """Forget the values that were sent for a container."""
        match = _ID.fullmatch(folder.rstrip("/").rpartition("/")[2])
        if match is not None:
            with self._lock:
                for knob in _FIELDS:
                    self._sent_values.pop((match[1], knob), None)

    def _update_container(self, number: str, values: dict[str, str]) -> None:
        fields: dict[str, Any] = {
            _FIELDS[knob]: value if knob in _LISTS else int(value) for knob, value in values.items()
        }
        request = pb.UpdateContainerResourcesRequest(container_id=number, linux=pb.LinuxContainerResources(**fields))
        try:
            if self._client is None:
                self._client = CriClient(self._socket, option="--set pods.cri=PATH")
            self._client.call("UpdateContainerResources", request, _CALL_S)
        except RpcError as error:
            _log.warning("the runtime refuses %s for container %s: %s", values, number[:12], plain(str(error), 200))
        except NriError as error:
            self._deaf_until = self._clock() + _PAUSE_S
            _log.warning(
                "values were written to cgroup files, but the runtime could not be notified: %s", plain(str(error), 200)
            )
            return
        if len(self._sent_values) >= _MAX_VALUES:
            self._sent_values.clear()
        self._sent_values.update(((number, knob), value) for knob, value in values.items())
