"""What the proxy knows of pods and containers, kept over its own restarts.

Rules: knows no plugin and no kubelet. Next: :mod:`nri.proxy.state.records`.
"""

from nri.proxy.state.records import CREATED, CREATING, REMOVED, STOPPED, ContainerRecord, PodRecord

__all__ = ["CREATED", "CREATING", "REMOVED", "STOPPED", "ContainerRecord", "PodRecord"]
