"""CPUs that configuration gives to a policy or keeps from it: a list, all but a list, or a number of them.

One job: the keys `availableResources` and `reservedResources`. Pure. Next: the options of the policies.
"""

from __future__ import annotations

from dataclasses import dataclass

from nri.config.complaint import WrongValue
from nri.kube import quantity
from nri.placement import masks

__all__ = ["Amounts"]

_LIST, _ALL_BUT = "cpuset:", "exclude-cpuset:"
_MOST_CPUS = 1 << 16


@dataclass(frozen=True)
class Amounts:
    """Amounts of resources; of memory nothing is read. Raises ValueError for CPUs that cannot be meant.

    Attributes:
        cpu: a list, cpuset:0-3, all but a list, exclude-cpuset:4-7, or a number of CPUs.
        memory: read, and without effect.
    """

    cpu: str | int | float | None = None
    memory: str | int | float | None = None

    def __post_init__(self) -> None:
        try:
            if self.cpu is not None and self.set_of(0) is None:
                self.count()
        except ValueError as error:
            raise WrongValue("cpu", str(error), "write cpuset:0-3, exclude-cpuset:4-7 or a number of CPUs") from None

    def set_of(self, every: int) -> int | None:
        """The mask of a list, or of all but a list; None if it is a number of CPUs, or not given."""
        words = str(self.cpu or "")
        if words.startswith(_LIST):
            return masks.parse(words.removeprefix(_LIST))
        if words.startswith(_ALL_BUT):
            return every & ~masks.parse(words.removeprefix(_ALL_BUT))
        return None

    def available(self, every: int, online: int) -> int:
        """The mask of what is available of all CPUs: all if not given. Raises WrongValue for a number, or for none.

        `every` has those that are off line, too.
        """
        found = every if self.cpu is None else self.set_of(every)
        if found is None:
            reason = f"{self.cpu} is a number, and does not say which CPUs"
            raise WrongValue(("availableResources", "cpu"), reason, "write a list, cpuset:0-3")
        if not found & online:
            reason = f"{self.cpu}: of these CPUs there is none; there are {masks.text(online)}"
            raise WrongValue(("availableResources", "cpu"), reason, "leave some to containers")
        return found & online

    def refused(self, reason: str, suggestion: str) -> WrongValue:
        """The error for reserved CPUs that do not go with the machine."""
        return WrongValue(("reservedResources", "cpu"), f"{self.cpu}: {reason}", suggestion)

    def count(self) -> int:
        """The number of CPUs, rounded up."""
        return quantity.ceil(quantity.bounded(self.cpu, _MOST_CPUS))
