"""The configuration keys `availableResources` and `reservedResources`."""

from __future__ import annotations

from dataclasses import dataclass

from nri.config.complaint import WrongValue
from nri.kube import quantity
from nri.placement import masks

_LIST, _ALL_BUT = "cpuset:", "exclude-cpuset:"
_MAX_CPUS = 1 << 16


@dataclass(frozen=True)
class Amounts:
    """Amounts of resources. Raises ValueError if `cpu` is not valid.

    Attributes:
        cpu: a list, cpuset:0-3, all but a list, exclude-cpuset:4-7, or a number of CPUs.
        memory: accepted, but without effect.
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
        """The mask of a list, or of all but a list. Returns None for a number of CPUs, or without a value."""
        text = str(self.cpu or "")
        if text.startswith(_LIST):
            return masks.parse(text.removeprefix(_LIST))
        if text.startswith(_ALL_BUT):
            return every & ~masks.parse(text.removeprefix(_ALL_BUT))
        return None

    def available(self, every: int, online: int) -> int:
        """The mask of available CPUs. Returns all online CPUs without a value.

        Raises WrongValue if the value is a number, or if no CPU in the list is online.

        Args:
            every: the mask of all CPUs, including offline ones.
        """
        cpus = every if self.cpu is None else self.set_of(every)
        if cpus is None:
            reason = f"{self.cpu} is a number of CPUs, but a list is required"
            raise WrongValue(("availableResources", "cpu"), reason, "write a list, cpuset:0-3")
        if not cpus & online:
            reason = f"none of the CPUs in {self.cpu} is online; online CPUs are {masks.text(online)}"
            raise WrongValue(("availableResources", "cpu"), reason, "list CPUs that are online")
        return cpus & online

    def refused(self, reason: str, suggestion: str) -> WrongValue:
        """The error for reserved CPUs that do not fit the machine."""
        return WrongValue(("reservedResources", "cpu"), f"{self.cpu}: {reason}", suggestion)

    def count(self) -> int:
        """The number of CPUs, rounded up."""
        return quantity.ceil(quantity.bounded(self.cpu, _MAX_CPUS))
