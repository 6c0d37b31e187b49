"""The runtime side of NRI: put it into a container engine with three calls and a table of events.

`Adaptation` is the way in. Reading order inside: `rules` (where we differ from the reference), `merge` (who may set
what), `state` (the life of a plugin), `pipeline` (the way of an event), `adaptation` (the wiring).
"""

from __future__ import annotations

from nri.adaptation.adaptation import Adaptation
from nri.adaptation.builtin import BuiltinPlugin
from nri.adaptation.gate import Block
from nri.adaptation.health import PluginHealth
from nri.adaptation.outcomes import FieldOutcome, UpdateResult
from nri.adaptation.replies import CreateReply, StopReply, UpdateReply
from nri.adaptation.rules import Rules
from nri.adaptation.validate import ValidatorConfig

__all__ = [
    "Adaptation",
    "Block",
    "BuiltinPlugin",
    "CreateReply",
    "FieldOutcome",
    "PluginHealth",
    "Rules",
    "StopReply",
    "UpdateReply",
    "UpdateResult",
    "ValidatorConfig",
]
