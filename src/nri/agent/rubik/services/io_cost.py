"""ioCost: the cost model of each disk for the node, and weights of online and offline pods.

Rules: on cgroup v1 only openEuler's kernels have it, where pages that are written later count for the pod that wrote
them; on v2 weights are `io.weight`. A disk that is not there switches all off, which is told: half of them would be no
control. A model that is not whole is found when the file is read. Its settings are taken back when the service is
switched off. Next: `nri.agent.rubik.services.cpi`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nri.agent.explain import Subject
from nri.agent.loops.round import KnobValue, Round
from nri.agent.rubik.decisions.io_cost import (
    MODEL,
    QOS,
    USUAL,
    WEIGHTS,
    clear,
    devices_of,
    disk_path,
    pod_writes,
    supported,
    writes,
)
from nri.agent.rubik.machine import block_device
from nri.agent.rubik.pods import pod_of
from nri.agent.rubik.service import Service, Services
from nri.agent.settings.node_name import node_name
from nri.agent.settings.values import AgentSettings
from nri.policies.writes import Write

__all__ = ["NAME", "IoCost"]

NAME: Final = "ioCost"
_ROOT: Final = Subject("node/block-io", name="block-io")


class IoCost(Service):
    """Sets cost models and weights."""

    name = NAME
    prompt = True

    def __init__(self, settings: AgentSettings, names: Sequence[str]) -> None:
        super().__init__(settings, names)
        self._node_name = node_name(settings)
        #: The disks that are on, and the folders that have a weight, with its knob.
        self._disks: frozenset[str] = frozenset()
        self._weighed: dict[str, str] = {}

    def __len__(self) -> int:
        """The number of folders that have a weight."""
        return len(self._weighed)

    def wants(self, rules: Services) -> bool:
        """Whether there is work: the file switches it on, or something is to go back."""
        return super().wants(rules) or bool(self._disks or self._weighed)

    def round(self, made: Round[Services]) -> None:
        """Set the node's disks and the weights of all pods."""
        knob = self._knob(made) if self.on else ""
        self._models(made, on=bool(knob))
        before, self._weighed = self._weighed, {}
        hierarchies = made.parts.executor.hierarchies
        for pod in made.pods:
            if not knob:
                if pod.folder in before:
                    made.set(pod.subject(), pod.folder, before[pod.folder], USUAL, NAME, "it is switched off")
                continue
            inode = (
                hierarchies.files.identity(hierarchies.folder("blkio", pod.folder) or "")
                if knob == WEIGHTS[0]
                else None
            )
            for write in pod_writes(pod_of(pod), str(inode[1]) if inode else "", knob):
                made.set(pod.subject(), write.folder, write.knob, write.value, NAME, "online 1000, offline 10")
            self._weighed[pod.folder] = knob

    def _knob(self, made: Round[Services]) -> str:
        """The knob of weights here; "" if there is no control by cost."""
        node = made.parts.store.node
        reason, v1 = node.lacks(MODEL) or node.lacks(QOS), node.has(WEIGHTS[0])
        if v1 and not reason and not supported(node.command_line()):
            reason = "the kernel was not booted with cgroup1_writeback"
        if reason:
            made.cannot(NAME, "pods have no weights", reason)
            return ""
        return WEIGHTS[0] if v1 else WEIGHTS[1]

    def _models(self, made: Round[Services], *, on: bool) -> None:
        """Set the models of the node's disks, and switch off those that are no longer named."""
        wanted: list[Write] = []
        if on:
            try:
                devices = devices_of(self.block, self._node_name)
                wanted = list(writes(devices, lambda name: block_device(made.parts.root, disk_path(name))))
            except ValueError as error:
                made.errors.append(f"{error}: no disk is controlled")
        disks = {write.value.partition(" ")[0] for write in wanted}
        # One value for each file: of two values for one file in a batch, only the later one would be written.
        by_knob: dict[str, dict[str, str]] = {}
        for write in (*wanted, *clear(sorted(self._disks - disks))):
            number, _, words = write.value.partition(" ")
            by_knob.setdefault(write.knob, {})[number] = words
        for file, by_disk in by_knob.items():
            made.values.append(KnobValue(_ROOT, "", file, "", NAME, "the file's models of disks", by_disk))
        self._disks = frozenset(disks)
