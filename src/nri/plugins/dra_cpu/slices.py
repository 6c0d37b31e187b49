"""ResourceSlices: the CPUs of the node as devices of one pool, and a publisher that keeps the slices in the API.

Each CPU is a device, because schedulers of Kubernetes 1.34 do not use shared counters by default. The kubelet deletes a
node's slices when it starts, and 30 seconds after the driver has ended, so the publisher follows the slices and writes
them again. A change of the devices gives all slices a higher generation; schedulers ignore older generations.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from nri.backoff import Backoff
from nri.kube.client.follow import Follower
from nri.kube.client.objects import NODES, RESOURCE_SLICES, ApiserverError, Object

if TYPE_CHECKING:
    import logging

    from nri.host.topology import Topology
    from nri.kube.client.connection import Apiserver
    from nri.kube.object_cache import Key

#: Kubernetes' limits for the devices of a slice, and for the name of an object.
MAX_DEVICES = 128
_MAX_NAME = 253
_PREFIX = "cpu-"
_GROUP = f"{RESOURCE_SLICES.group}/{RESOURCE_SLICES.version}"


def device_name(cpu: int) -> str:
    """The device of a CPU: ``cpu-3``."""
    return f"{_PREFIX}{cpu}"


def cpu_of(device: str) -> int:
    """The CPU of a device. Raises ValueError for a name that `device_name` does not return."""
    digits = device.removeprefix(_PREFIX)
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 5 and device_name(int(digits)) == device):
        raise ValueError(f"{device!r} is not a device of this driver, such as {device_name(3)}")
    return int(digits)


def devices(topology: Topology, cpus: Iterable[int]) -> list[Object]:
    """The devices of these CPUs.

    The attribute `core` is the lowest CPU of the core, because the kernel's core numbers are unique only in a package.
    """
    listed = []
    for number in sorted(cpus):
        cpu = topology.cpus[number]
        numbers = {"numaNode": cpu.node, "package": cpu.package, "die": cpu.die, "core": min(cpu.threads)}
        caches = [cache for cache in cpu.caches if cache.level == 3 and cache.cpus]
        if caches:
            numbers["l3Cache"] = min(caches[0].cpus)
        attributes: Object = {name: {"int": number} for name, number in numbers.items()}
        attributes["coreType"] = {"string": cpu.kind}
        attributes["isolated"] = {"bool": number in topology.isolated}
        listed.append({"name": device_name(number), "attributes": attributes})
    return listed


def slices(driver: str, node: str, listed: list[Object], generation: int) -> list[Object]:
    """The ResourceSlices of a node's devices, without an owner."""
    parts = [listed[first : first + MAX_DEVICES] for first in range(0, len(listed), MAX_DEVICES)]
    pool = {"name": node, "generation": generation, "resourceSliceCount": len(parts)}
    return [
        {
            "apiVersion": _GROUP,
            "kind": RESOURCE_SLICES.name,
            "metadata": {"name": _slice_name(driver, node, number)},
            "spec": {"driver": driver, "nodeName": node, "pool": pool, "devices": part},
        }
        for number, part in enumerate(parts)
    ]


def _slice_name(driver: str, node: str, number: int) -> str:
    name = f"{node}-{driver}-{number}"
    return name if len(name) <= _MAX_NAME else f"{hashlib.sha256(node.encode()).hexdigest()[:32]}-{driver}-{number}"


def generation_of(obj: Object) -> int:
    """The pool's generation in a slice, or 0 if it is not a number."""
    pool = table(table(obj.get("spec")).get("pool"))
    generation = pool.get("generation")
    return generation if isinstance(generation, int) else 0


def are_published(expected_slices: list[Object], existing: Mapping[str, Object]) -> bool:
    """Whether all expected slices exist with the same devices and with one generation, the highest of all."""
    present = [existing.get(obj["metadata"]["name"]) for obj in expected_slices]
    newest = max(map(generation_of, existing.values()), default=0)
    return all(
        obj is not None and generation_of(obj) == newest and _content(obj) == _content(expected)
        for obj, expected in zip(present, expected_slices, strict=True)
    )


def _content(obj: Object) -> Any:
    """The parts of a slice that this driver decides, without fields that the API server adds."""
    spec = table(obj.get("spec"))
    pool, listed = table(spec.get("pool")), spec.get("devices")
    named = [(table(device).get("name"), table(device).get("attributes")) for device in listed or ()]
    return spec.get("driver"), spec.get("nodeName"), pool.get("name"), pool.get("resourceSliceCount"), named


def table(value: Any) -> Object:
    """A value as a JSON object, or an empty one if it is of another type."""
    return value if isinstance(value, dict) else {}


class Publisher:
    """Keeps the slices of a node in the API.

    Args:
        listed: the devices, from `devices`.
        log: receives a line for each publication, and for each new problem.
    """

    def __init__(
        self, api: Apiserver, driver: str, node: str, listed: list[Object], log: logging.LoggerAdapter[logging.Logger]
    ) -> None:
        self._api, self._driver, self._node, self._devices, self._log = api, driver, node, listed, log
        self._existing: dict[str, Object] = {}
        self._is_checked = True
        self._backoff = Backoff()
        self._next_attempt = 0.0
        self._problem = ""
        fields = f"spec.nodeName={node},spec.driver={driver}"
        self._follower = Follower(api, RESOURCE_SLICES, self._replace_existing, fields=fields)

    def start(self) -> None:
        """Start to follow the slices."""
        self._follower.start()

    def stop(self) -> None:
        """Stop to follow the slices. They stay; the kubelet deletes them if the driver does not return."""
        self._follower.cut()

    def publish(self) -> None:
        """Write the slices if the API does not have them. Errors are logged; later calls try again."""
        if self._is_checked or time.monotonic() < self._next_attempt:
            return
        self._is_checked, existing = True, self._existing
        if are_published(slices(self._driver, self._node, self._devices, 0), existing):
            self._problem = ""
            return
        generation = 1 + max(map(generation_of, existing.values()), default=0)
        self._backoff.started()
        try:
            self._write(generation)
        except ApiserverError as error:
            self._is_checked = False
            self._next_attempt = time.monotonic() + self._backoff.ended()
            if str(error) != self._problem:
                self._problem = str(error)
                self._log.warning("%s; trying again", error)
            return
        self._backoff.reset()
        self._log.info("published %d CPUs of node %s, generation %d", len(self._devices), self._node, generation)

    def _write(self, generation: int) -> None:
        """Write all slices. The node owns them, so that they are deleted with it."""
        uid = self._api.get(NODES, NODES.cluster_object_path(self._node))["metadata"].get("uid", "")
        owner = {"apiVersion": "v1", "kind": "Node", "name": self._node, "uid": uid}
        for obj in slices(self._driver, self._node, self._devices, generation):
            name = obj["metadata"]["name"]
            document = {**obj, "metadata": {"name": name, "ownerReferences": [owner]}}
            self._api.patch(
                f"apply {RESOURCE_SLICES} {name}", RESOURCE_SLICES.cluster_object_path(name), document, self._driver
            )

    def _replace_existing(self, existing: Mapping[Key, Object]) -> None:
        self._existing = {key[-1]: obj for key, obj in existing.items()}
        self._is_checked = False
