"""The surroundings of an event that has an answer, the same for all events of a runtime; and its parts for the merge.

Next: `nri.adaptation.dispatch.event`, which holds one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from nri.adaptation.audit.reporting import Reporting
    from nri.adaptation.audit.trail import AuditTrail
    from nri.adaptation.registration.kept_updates import KeptUpdates
    from nri.rules import Rules

__all__ = ["EventContext", "Parts"]


class EventContext:
    """The parts that an event with an answer needs beside its request; one object for all events of a runtime.

    Attributes:
        rules: where to differ from the reference.
        trail: records, and the containers that there are.
        reporting: who is told of its steps.
        kept: hands over updates that wait until a container is created.
    """

    __slots__ = ("kept", "reporting", "rules", "trail")  # compiled, a NamedTuple needs its types at run time

    def __init__(self, rules: Rules, trail: AuditTrail, reporting: Reporting, kept: KeptUpdates) -> None:
        self.rules, self.trail, self.reporting, self.kept = rules, trail, reporting, kept


class Parts(NamedTuple):
    """A request's messages side by side, as the merge reads them: one message would copy them."""

    pod: Any
    container: Any
    linux_resources: Any = None
