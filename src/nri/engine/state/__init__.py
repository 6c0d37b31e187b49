"""The records of pods and containers on disk. A restarted engine reads them."""

from nri.engine.state.names import Ids, Names
from nri.engine.state.records import ContainerRecord, PodRecord
from nri.engine.state.store import LoadedRecords, Store
from nri.engine.state.tables import ContainerState, PodState, next_container_state, next_pod_state

__all__ = [
    "ContainerRecord",
    "ContainerState",
    "Ids",
    "LoadedRecords",
    "Names",
    "PodRecord",
    "PodState",
    "Store",
    "next_container_state",
    "next_pod_state",
]
