"""Decide between plugins: fold their replies to one event into one, and say who set what.

Pure: no I/O, no clock, no threads, no logging.

    state = CreateState(request)                   # or UpdateState, StopState
    for plugin in plugins:
        reply = call(plugin, state.request)        # sees what earlier plugins did
        state.apply(plugin.name, reply)            # all of it, or ConflictError and nothing
    state.reply(), state.owners()

Reading order: `fields` (the table), `entries`, `fresh`, `claims`, `ledger`, `effects`, `shown`, `update`, `create`.
"""

from nri.adaptation.merge.create import CreateState
from nri.adaptation.merge.ledger import Claim, Ledger
from nri.adaptation.merge.update import Eviction, Ignored, StopState, UpdateState
from nri.errors import Conflict

__all__ = ["Claim", "Conflict", "CreateState", "Eviction", "Ignored", "Ledger", "StopState", "UpdateState"]
