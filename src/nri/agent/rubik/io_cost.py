"""The service ioCost: disks have a cost model, and online and offline pods have weights.

On cgroup v1 this requires openEuler's kernel, with writeback counted for the pod that wrote the pages. On v2 weights
are `io.weight`. A missing disk disables cost control on all disks and is reported. An incomplete model is refused when
rubik's configuration file is read. Values are reset when the service is switched off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, field, fields
from typing import Annotated, Final

from nri.agent.hooks import RUN_POD, Hook
from nri.agent.loops.round import KnobValue, Round
from nri.agent.model import Changes, Decision, Pod, Subject, Write
from nri.agent.rubik.machine import block_device
from nri.agent.rubik.pods import OFFLINE, PREEMPTIBLE, class_of, offline
from nri.agent.rubik.service import Node, Service, Services
from nri.agent.settings.node_name import node_name
from nri.agent.settings.values import AgentSettings
from nri.config import Between
from nri.config.complaint import Problem

NAME: Final = "ioCost"
_MODEL, _QOS, _INODE = "io.cost_model", "io.cost_qos", "memory.wb_blkio_ino"
#: The cgroup files of weights, on cgroup v1 and on v2.
_WEIGHT_FILES: Final = ("io.cost_weight", "io.weight")
#: The kernel's default weight.
DEFAULT_WEIGHT: Final = 100
_ONLINE_WEIGHT, _OFFLINE_WEIGHT = 1000, 10
_WEIGHT_REASON: Final = f"online {_ONLINE_WEIGHT}, offline {_OFFLINE_WEIGHT}"
_ROOT: Final = Subject("node/block-io", name="block-io")
_Amount = Annotated[int, Between(-(2**63), 2**63 - 1)]


@dataclass(frozen=True, slots=True)
class Parameters:
    """The maximum rates of a disk per second: bytes, sequential and random operations, for reads and writes."""

    rbps: _Amount = 0
    rseqiops: _Amount = 0
    rrandiops: _Amount = 0
    wbps: _Amount = 0
    wseqiops: _Amount = 0
    wrandiops: _Amount = 0


@dataclass(frozen=True, slots=True)
class Device:
    """The cost model of one disk."""

    dev: str = ""
    model: str = ""
    param: Parameters = field(default_factory=Parameters)


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """The disks of the node with this name; `global` stands for every other node."""

    nodeName: str = ""
    config: list[Device] = field(default_factory=list)


_KEYS: Final = tuple(parameter.name for parameter in fields(Parameters))


def has_cgroup1_writeback(command_line: str) -> bool:
    """Return whether the kernel was booted with writeback for cgroup v1."""
    return "cgroup1_writeback" in command_line.split()


def devices_of(nodes: Sequence[NodeDevices], name: str) -> Sequence[Device]:
    """Return the disks of a node: the first entry with its name, or else the last entry for all nodes."""
    node_entries = [node for node in nodes if node.nodeName == name]
    global_entries = [node for node in nodes if node.nodeName == "global"]
    return node_entries[0].config if node_entries else global_entries[-1].config if global_entries else ()


def disk_path(name: str) -> str:
    """Return the path of a disk, given its path or its name below /dev, for example `sda` or `mapper/vg-a`."""
    return name if name.startswith("/dev/") else f"/dev/{name}"


def problems(device: Device) -> Iterator[Problem]:
    """Yield the mistakes in the model of a disk. Paths begin at the disk."""
    if device.model != "linear":
        yield Problem(("model",), f'"{device.model}" is not linear', 'use "linear"')
    for key, value in zip(_KEYS, astuple(device.param), strict=True):
        if value <= 0:
            yield Problem(("param", key), f"{value} is not above 0", "use the maximum rate of the disk per second")


def block_problems(nodes: Sequence[NodeDevices]) -> Iterator[Problem]:
    """Yield the mistakes in the models of all disks. Paths begin at the service's block in the file."""
    for index, node in enumerate(nodes):
        for place, device in enumerate(node.config):
            for problem in problems(device):
                yield problem._replace(path=(index, "config", place, *problem.path))


def writes(devices: Iterable[Device], number_of: Callable[[str], str]) -> Iterator[Write]:
    """Yield the writes in the root cgroup, disk by disk. `number_of` returns the number of a block device, or "".

    Raises:
        ValueError: a disk is missing, or its model is incomplete.
    """
    for place, device in enumerate(devices):
        number = number_of(device.dev)
        if not number:
            raise ValueError(f"{NAME}: config[{place}].dev: {device.dev!r} is not a block device")
        for problem in problems(device):
            raise ValueError(f"{NAME}: config[{place}].{'.'.join(map(str, problem.path))}: {problem.reason}")
        words = " ".join(f"{key}={value}" for key, value in zip(_KEYS, astuple(device.param), strict=True))
        yield Write("", _MODEL, f"{number} {words}", NAME)
        yield _switch_write(number, on=True)


def clear(numbers: Iterable[str]) -> list[Write]:
    """Return the writes that disable cost control on disks."""
    return [_switch_write(number, on=False) for number in numbers]


def _switch_write(number: str, *, on: bool) -> Write:
    return Write("", _QOS, f"{number} enable={on:d} ctrl=user min=100.00 max=100.00", NAME)


def pod_writes(pod: Pod, inode: str, knob: str = _WEIGHT_FILES[0]) -> list[Write]:
    """Return the writes for a pod. `inode` is the inode of its block I/O cgroup on v1, to which its memory is bound."""
    bound = [Write(pod.folder, _INODE, inode, NAME)] if inode else []
    return [Write(pod.folder, knob, str(weight(offline=offline(pod))), NAME), *bound]


def weight(*, offline: bool) -> int:
    """Return the weight of a pod."""
    return _OFFLINE_WEIGHT if offline else _ONLINE_WEIGHT


def _unsupported(node: Node) -> str:
    """Return why the kernel cannot control disks by cost, or "" if it can."""
    if reason := node.missing_reason(_MODEL) or node.missing_reason(_QOS):
        return reason
    if node.has(_WEIGHT_FILES[0]) and not has_cgroup1_writeback(node.command_line()):
        return "the kernel was not booted with cgroup1_writeback"
    return ""


def at_start(pod: Pod, node: Node) -> Decision:
    """Give a new pod the weight of its class, if the kernel has cost models."""
    knob = next(filter(node.has, _WEIGHT_FILES), "")
    if not knob or _unsupported(node):
        return Decision()
    return Decision(Changes({knob: weight(offline=class_of(pod) == OFFLINE)}), _WEIGHT_REASON)


HOOK: Final = Hook(NAME, False, (), (PREEMPTIBLE,), {RUN_POD: at_start})


class IoCost(Service):
    """The service that sets cost models of disks and weights of pods."""

    name = NAME
    runs_on_pod_changes = True

    def __init__(self, settings: AgentSettings, names: Sequence[str]) -> None:
        super().__init__(settings, names)
        self._node_name = node_name(settings)
        #: The disks with cost control.
        self._disks: frozenset[str] = frozenset()
        #: The cgroup file of the weight of each pod with a weight, by the pod's cgroup.
        self._weight_knobs: dict[str, str] = {}

    def __len__(self) -> int:
        """The number of pods with a weight."""
        return len(self._weight_knobs)

    def is_needed(self, rules: Services) -> bool:
        """Return whether the file switches the service on, or models or weights must be reset."""
        return super().is_needed(rules) or bool(self._disks or self._weight_knobs)

    def round(self, round_: Round[Services]) -> None:
        """Set the node's disks and the weights of all pods."""
        knob = self._weight_knob(round_) if self.on else ""
        self._set_models(round_, on=bool(knob))
        before, self._weight_knobs = self._weight_knobs, {}
        for pod in round_.pods:
            if not knob:
                if pod.folder in before:
                    reason = "ioCost is switched off"
                    round_.set(pod.subject(), pod.folder, before[pod.folder], DEFAULT_WEIGHT, NAME, reason)
                continue
            inode = _inode(round_, pod.folder) if knob == _WEIGHT_FILES[0] else ""
            for write in pod_writes(pod, inode, knob):
                round_.set(pod.subject(), write.folder, write.knob, write.value, NAME, _WEIGHT_REASON)
            self._weight_knobs[pod.folder] = knob

    @staticmethod
    def _weight_knob(round_: Round[Services]) -> str:
        """Return the cgroup file of weights, or "" if disks cannot be controlled by cost."""
        node = round_.parts.store.node
        if reason := _unsupported(node):
            round_.cannot(NAME, "pods have no weights", reason)
            return ""
        return _WEIGHT_FILES[0] if node.has(_WEIGHT_FILES[0]) else _WEIGHT_FILES[1]

    def _set_models(self, round_: Round[Services], *, on: bool) -> None:
        """Set the models of the node's disks, and disable cost control on disks that the file no longer contains."""
        models: list[Write] = []
        if on:
            try:
                devices = devices_of(self.block, self._node_name)
                models = list(writes(devices, lambda name: block_device(round_.parts.root, disk_path(name))))
            except ValueError as error:
                round_.errors.append(f"{error}; io.cost is not set for any disk")
        disks = {write.value.partition(" ")[0] for write in models}
        # One value for each file: of two values for one file in a batch, only the later one would be written.
        by_knob: dict[str, dict[str, str]] = {}
        for write in (*models, *clear(sorted(self._disks - disks))):
            number, _, words = write.value.partition(" ")
            by_knob.setdefault(write.knob, {})[number] = words
        for knob, by_disk in by_knob.items():
            round_.values.append(KnobValue(_ROOT, "", knob, "", NAME, "the disk models in rubik's file", by_disk))
        self._disks = frozenset(disks)


def _inode(round_: Round[Services], folder: str) -> str:
    """Return the inode of a pod's block I/O cgroup on v1, or "" if it is unknown."""
    hierarchies = round_.parts.executor.hierarchies
    identity = hierarchies.files.identity(hierarchies.folder("blkio", folder) or "")
    return str(identity[1]) if identity else ""
