"""The hook RDMADeviceInject: the device nodes of RDMA functions that the scheduler assigned to a container.

The device nodes are the connection manager's node, and the verbs node of each virtual function, or of the physical
function if there are no virtual functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from nri.agent.hooks import CREATE, Hook
from nri.agent.koordinator import pod_annotations
from nri.agent.koordinator.names import ANNOTATION_DEVICES
from nri.agent.koordinator.node import Devices
from nri.agent.model import Changes, Container, Decision, Device, HookError
from nri.agent.ownership import Level, OwnedKnob

NAME: Final = "RDMADeviceInject"
_FOLDER: Final = "/dev/infiniband"
_MODE: Final = 0o666


def container(context: Container, devices: Devices) -> Decision:
    """Decide a container's devices. Raises HookError if the annotation is unreadable or a device is missing."""
    try:
        allocated = pod_annotations.device_allocations(context.pod.annotations, "rdma")
    except ValueError as error:
        raise HookError(NAME, str(error)) from None
    if not allocated:
        return Decision()
    nodes: list[Device] = []
    try:
        nodes.append(_node(f"{_FOLDER}/rdma_cm", devices))
        nodes.extend(_node(_verbs(address, devices), devices) for address in _functions(allocated))
    except OSError as error:
        raise HookError(NAME, str(error), Changes(devices=tuple(nodes))) from None
    return Decision(Changes(devices=tuple(nodes)), "RDMA functions that the scheduler assigned")


def _functions(allocated: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for device in allocated:
        virtual = device.get("extension", {}).get("vfs", [])
        if virtual:
            yield from (function.get("busID", "") for function in virtual)
        else:
            yield device.get("id", "")


def _verbs(address: str, devices: Devices) -> str:
    verbs = sorted(devices.verbs(address))
    if not verbs:
        raise OSError(f"PCI function {address} has no verbs")
    return f"{_FOLDER}/{verbs[0]}"


def _node(path: str, devices: Devices) -> Device:
    major, minor = devices.numbers(path)
    return Device(path, "c", major, minor, _MODE)


HOOK: Final = Hook(
    NAME,
    False,
    (),
    (ANNOTATION_DEVICES,),
    {CREATE: lambda context, node: Decision() if node.devices is None else container(context, node.devices)},
    (OwnedKnob(Level.CONTAINER, "devices"),),
)
