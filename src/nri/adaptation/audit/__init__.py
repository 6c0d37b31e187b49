"""The audit trail: the containers that there are, the record of every answer, and how to explain it. No I/O.

Reading order: `trail` (the face towards events), `inventory` (the containers that there are), `provenance` and
`record` (what is kept), `explanation` and `diff` (what it meant), `update_result` and `answer_order` (which of two
updates counts) with `restoration`, `shadow`, and `reporting` with its `bounded_log` and `recent` (the steps
of an event told to watchers, the log, and who looks on).
"""

from nri.adaptation.audit.diff import Change, of_adjustment, of_update, show
from nri.adaptation.audit.explanation import Step
from nri.adaptation.audit.provenance import Provenance
from nri.adaptation.audit.record import CREATION, SILENT
from nri.adaptation.audit.shadow import ShadowReport

__all__ = ["CREATION", "SILENT", "Change", "Provenance", "ShadowReport", "Step", "of_adjustment", "of_update", "show"]
