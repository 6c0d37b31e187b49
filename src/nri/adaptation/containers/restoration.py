"""The resources that a container has again after an update was taken back: `Restoration`.

Only fields are restored that the update had set and no later answer has set since: its field gets the newest of the
other answers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from nri.adaptation.containers.answer_order import Numbers, OrderedUpdates, without
from nri.adaptation.containers.update_result import field_names
from nri.api import messages as m

__all__ = ["Restoration", "as_updates"]

#: The values that a kernel takes for "not set", by field; other fields have none.
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
    """The resources that a container had before an update that is taken back.

    Attributes:
        container_id: its id.
        resources: all that it is to have; they are not to be changed.
        restored: names of the fields that get another value by that, such as `cpu.shares` or `unified[memory.high]`.
        unset: names of those that were not set before: they are to be not set again.
        numbers: the places of these fields in the order of answers, for `FieldOrder`.
    """

    container_id: str
    resources: m.LinuxResources
    restored: tuple[str, ...] = ()
    unset: tuple[str, ...] = ()
    numbers: Numbers = field(default_factory=lambda: Numbers(0), compare=False)

    def as_update(self) -> m.ContainerUpdate:
        """The restoration as an update; what is to be not set has the value that a kernel takes for that, if any."""
        update = m.ContainerUpdate(container_id=self.container_id, ignore_failure=True)
        others = set(field_names(self.resources)) - set(self.restored)
        resources = update.linux.resources
        resources.CopyFrom(without(self.resources, others))
        for name in self.unset:
            if name == "pids":
                resources.pids.limit = NOT_SET[name]
            elif name in NOT_SET:
                group, _, last = name.partition(".")
                getattr(getattr(resources, group), last).value = NOT_SET[name]
        return update


def as_updates(restorations: list[Restoration]) -> OrderedUpdates:
    """Restorations as updates with their numbers, for a runtime that applies updates."""
    by_container = {each.container_id: each.numbers for each in restorations}
    return OrderedUpdates([each.as_update() for each in restorations], by_container=by_container)
