"""Merge plugins' replies to one event into one result, and record the owner of each field.

No I/O, no clock, no threads, no logging.

    merge = CreateMerge(request)                   # or UpdateMerge, StopMerge
    for plugin in plugins:
        reply = call(plugin, merge.request)        # sees the changes of earlier plugins
                merge.apply(plugin.name, reply)            # merges all of it, or raises ConflictError and merges
                nothing
    merge.reply(), merge.owners()

Reading order: `nri.api.fields` (the table), `entries`, `fast_path`, `claims`, `ledger`, `effects`, `container_view`,
`side_updates`, `update`, `create`, `limits`.
"""

from nri.adaptation.merge.create import CreateMerge
from nri.adaptation.merge.entries import Entry, read
from nri.adaptation.merge.ledger import Claim, Ledger
from nri.adaptation.merge.limits import count as count_entries
from nri.adaptation.merge.side_updates import Eviction, IgnoredRequest
from nri.adaptation.merge.update import StopMerge, UpdateMerge
from nri.api.fields import RESOURCES_TREE, ROWS, TREE, Kind, Row
from nri.errors import Conflict

__all__ = [
    "RESOURCES_TREE",
    "ROWS",
    "TREE",
    "Claim",
    "Conflict",
    "CreateMerge",
    "Entry",
    "Eviction",
    "IgnoredRequest",
    "Kind",
    "Ledger",
    "Row",
    "StopMerge",
    "UpdateMerge",
    "count_entries",
    "read",
]
