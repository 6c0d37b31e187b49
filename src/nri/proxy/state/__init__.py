"""The proxy's records of pods and containers, which are stored over its restarts."""

from nri.proxy.state.checkpoint import Checkpoint
from nri.proxy.state.records import CREATED, CREATING, REMOVED, STOPPED, ContainerRecord, PodRecord
from nri.proxy.state.store import Store

__all__ = ["CREATED", "CREATING", "REMOVED", "STOPPED", "Checkpoint", "ContainerRecord", "PodRecord", "Store"]
