"""The resources of a container after an update was undone: `Restoration`.

Only fields are restored that the update had set and that no later answer has set since then.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from nri.adaptation.containers.answer_order import OrderedUpdates, SequenceNumbers, without
from nri.adaptation.containers.update_result import field_names
from nri.api import messages as m

#: The value that the kernel takes for "not set", by field. Other fields do not have such a value.
NOT_SET: dict[str, int] = {
    "memory.limit": -1,
    "memory.reservation": -1,
    "memory.swap": -1,
    "memory.kernel": -1,
    "memory.kernel_tcp": -1,
    "cpu.shares": 1024,
    "cpu.quota": -1,
    "cpu.period": 100_000,
    "pids": -1,
}


@dataclass(frozen=True, slots=True)
class Restoration:
    """The resources that a container had before an undone update.

    Attributes:
        container_id: the id of the container.
        resources: all resources that the container must have. Do not change them.
        restored: the names of the fields that change, for example `cpu.shares` or `unified[memory.high]`.
        unset: the names of the fields that were not set before.
        numbers: the sequence numbers of these fields, for `FieldOrder`.
    """

    container_id: str
    resources: m.LinuxResources
    restored: tuple[str, ...] = ()
    unset: tuple[str, ...] = ()
    numbers: SequenceNumbers = field(default_factory=lambda: SequenceNumbers(0), compare=False)

    def as_update(self) -> m.ContainerUpdate:
        """The restoration as an update.

        Unset fields have the kernel's value for "not set", if the kernel has such a value.
        """
        update = m.ContainerUpdate(container_id=self.container_id, ignore_failure=True)
        unrestored = set(field_names(self.resources)) - set(self.restored)
        resources = update.linux.resources
        resources.CopyFrom(without(self.resources, unrestored))
        for name in self.unset:
            if name == "pids":
                resources.pids.limit = NOT_SET[name]
            elif name in NOT_SET:
                group, _, last = name.partition(".")
                getattr(getattr(resources, group), last).value = NOT_SET[name]
        return update


def as_updates(restorations: list[Restoration]) -> OrderedUpdates:
    """Restorations as updates with their sequence numbers, for a runtime that applies updates."""
    by_container = {restoration.container_id: restoration.numbers for restoration in restorations}
    return OrderedUpdates([restoration.as_update() for restoration in restorations], by_container=by_container)
