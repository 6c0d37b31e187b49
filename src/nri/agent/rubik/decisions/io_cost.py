"""I/O by cost: a model of each disk for the node, and the weight of online and offline pods.

Next: `nri.agent.rubik.decisions.dyn_memory`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, fields
from typing import Final

from nri.agent.rubik.blocks import IoCostDevice, IoCostNode, IoCostParam
from nri.agent.rubik.pods import Pod, offline
from nri.config.complaint import Problem
from nri.policies.writes import Write

__all__ = [
    "MODEL",
    "QOS",
    "USUAL",
    "WEIGHTS",
    "block_problems",
    "clear",
    "devices_of",
    "disk_path",
    "mistakes",
    "pod_writes",
    "supported",
    "weight",
    "writes",
]

MODEL, QOS = "io.cost_model", "io.cost_qos"
#: The knobs of weights, on cgroup v1 and on v2; and the weight that a kernel gives.
WEIGHTS: Final = ("io.cost_weight", "io.weight")
USUAL: Final = 100
_INODE: Final = "memory.wb_blkio_ino"
_ONLINE, _OFFLINE = 1000, 10
_KEYS: Final = tuple(each.name for each in fields(IoCostParam))
_REASON: Final = "ioCost"


def supported(command_line: str) -> bool:
    """Whether the kernel was started so that written pages count for the pod that wrote them, on cgroup v1."""
    return "cgroup1_writeback" in command_line.split()


def devices_of(nodes: Sequence[IoCostNode], name: str) -> Sequence[IoCostDevice]:
    """Return the disks of a node: of the first entry with its name, else of the last for all nodes."""
    own = [node for node in nodes if node.nodeName == name]
    every = [node for node in nodes if node.nodeName == "global"]
    return own[0].config if own else every[-1].config if every else ()


def disk_path(name: str) -> str:
    """Return the path of a disk: rubik names it below /dev, such as `sda` or `mapper/vg-a`; a path is taken as well."""
    return name if name.startswith("/dev/") else f"/dev/{name}"


def mistakes(device: IoCostDevice) -> Iterator[Problem]:
    """Yield what is wrong with the model of a disk, by which none can be controlled; paths begin at the disk."""
    if device.model != "linear":
        yield Problem(("model",), f'"{device.model}" is not linear', 'say "linear"')
    for key, value in zip(_KEYS, astuple(device.param), strict=True):
        if value <= 0:
            yield Problem(("param", key), f"{value} is not from 1 on", "say what the disk does in a second at most")


def block_problems(nodes: Sequence[IoCostNode]) -> Iterator[Problem]:
    """Yield what is wrong with the models of all disks; paths begin at the block."""
    for index, node in enumerate(nodes):
        for place, device in enumerate(node.config):
            for problem in mistakes(device):
                yield problem._replace(path=(index, "config", place, *problem.path))


def writes(devices: Iterable[IoCostDevice], number_of: Callable[[str], str]) -> Iterator[Write]:
    """Yield the writes in the root cgroup, disk by disk; `number_of` gives the numbers of a block device, "" for none.

    Raises:
        ValueError: at a disk that is not there, or whose model is not whole.
    """
    for place, device in enumerate(devices):
        number = number_of(device.dev)
        if not number:
            raise ValueError(f"ioCost: config[{place}].dev: {device.dev!r} is no block device")
        for wrong in mistakes(device):
            raise ValueError(f"ioCost: config[{place}].{'.'.join(map(str, wrong.path))}: {wrong.reason}")
        values = astuple(device.param)
        words = " ".join(f"{key}={value}" for key, value in zip(_KEYS, values, strict=True))
        yield Write("", MODEL, f"{number} {words}", _REASON)
        yield _switch(number, on=True)


def clear(numbers: Iterable[str]) -> list[Write]:
    """Return the writes that switch disks off."""
    return [_switch(number, on=False) for number in numbers]


def pod_writes(pod: Pod, inode: str, knob: str = WEIGHTS[0]) -> list[Write]:
    """Return the writes for a pod; `inode` is that of its block I/O cgroup on v1, to which its memory is bound."""
    bound = [Write(pod.folder, _INODE, inode, _REASON)] if inode else []
    return [Write(pod.folder, knob, str(weight(offline=offline(pod))), _REASON), *bound]


def weight(*, offline: bool) -> int:
    """Return the weight of a pod."""
    return _OFFLINE if offline else _ONLINE


def _switch(number: str, *, on: bool) -> Write:
    return Write("", QOS, f"{number} enable={on:d} ctrl=user min=100.00 max=100.00", _REASON)
