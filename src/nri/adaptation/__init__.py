"""The runtime side of NRI: `Adaptation` adds NRI to a container engine.

`adaptation` connects seven packages. Each package depends only on the packages after it: `dispatch` (pass an event
through all plugins), `launch` (start installed plugins), `registration` (plugins join), `peers` (the connection to each
plugin), `audit` (who changed what), `containers` (their live state), `merge` (which plugin may set what). The
operator's rules are in `nri.plugin_policy`, on which these packages depend.
"""

from __future__ import annotations

from nri.adaptation.adaptation import Adaptation
from nri.adaptation.containers.answer_order import FieldOrder, OrderedUpdates, SequenceNumbers
from nri.adaptation.containers.restoration import Restoration
from nri.adaptation.containers.update_result import FieldOutcome, UpdateResult
from nri.adaptation.dispatch.reply import CreateReply, StopReply, UpdateReply
from nri.adaptation.events import ContainerEvent, Events, PodEvent
from nri.adaptation.peers.builtin import BuiltinPlugin
from nri.adaptation.peers.health import PluginHealth
from nri.adaptation.registration.sync_gate import Block
from nri.adaptation.settings import AdaptationSettings
from nri.api.default_validator import ValidatorConfig
from nri.plugin_policy.policy import DEFAULT_PATH as POLICY_PATH
from nri.rules import Rules

__all__ = [
    "POLICY_PATH",
    "Adaptation",
    "AdaptationSettings",
    "Block",
    "BuiltinPlugin",
    "ContainerEvent",
    "CreateReply",
    "Events",
    "FieldOrder",
    "FieldOutcome",
    "OrderedUpdates",
    "PluginHealth",
    "PodEvent",
    "Restoration",
    "Rules",
    "SequenceNumbers",
    "StopReply",
    "UpdateReply",
    "UpdateResult",
    "ValidatorConfig",
]


def __dir__() -> list[str]:
    return __all__
