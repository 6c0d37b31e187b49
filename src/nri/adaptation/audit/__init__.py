"""The audit trail: a record of every answer, explanations of records, and reports of each step of an event. No I/O.

Reading order: `trail` (the interface for events), `provenance` and `record` (the stored records), `explanation` and
`diff` (the changes that records mean), `shadow`, and `reporting` with its `bounded_log` and `recent` (steps of events
for observers and reporters, the log, and the latest events for `nri top`).
"""

from nri.adaptation.audit.diff import Change, of_adjustment, of_update, show
from nri.adaptation.audit.explanation import STATES, Step
from nri.adaptation.audit.provenance import Provenance
from nri.adaptation.audit.record import CREATION, SILENT
from nri.adaptation.audit.shadow import ShadowReport

__all__ = [
    "CREATION",
    "SILENT",
    "STATES",
    "Change",
    "Provenance",
    "ShadowReport",
    "Step",
    "of_adjustment",
    "of_update",
    "show",
]
