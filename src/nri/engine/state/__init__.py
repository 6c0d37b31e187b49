"""Pods and containers as they are on disk, so that a restarted engine knows what it has.

Owns its folder and nothing else; knows no process, mount or message. Records are replaced whole.
"""

from nri.engine.state.names import Ids, Names
from nri.engine.state.records import ContainerRecord, PodRecord
from nri.engine.state.store import Loaded, Store
from nri.engine.state.tables import ContainerState, PodState, next_container_state, next_pod_state

__all__ = [
    "ContainerRecord",
    "ContainerState",
    "Ids",
    "Loaded",
    "Names",
    "PodRecord",
    "PodState",
    "Store",
    "next_container_state",
    "next_pod_state",
]
