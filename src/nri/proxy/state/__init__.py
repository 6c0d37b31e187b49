"""The proxy's knowledge of pods and containers, kept over its own restarts.

Rules: knows no plugin, no kubelet and no runtime. Next: `records`, then `store` and `checkpoint`.
"""

from nri.proxy.state.checkpoint import Checkpoint
from nri.proxy.state.records import CREATED, CREATING, REMOVED, STOPPED, ContainerRecord, PodRecord
from nri.proxy.state.store import Store

__all__ = ["CREATED", "CREATING", "REMOVED", "STOPPED", "Checkpoint", "ContainerRecord", "PodRecord", "Store"]
