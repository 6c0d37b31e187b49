"""Pods of this node as API objects, from an apiserver, the kubelet, the runtime's CRI, or a file.

Every source is a `PodSource`. Next: `nri.agent.pods.source`, the protocol and what sources share; then one module for
each of them.
"""

from nri.agent.pods.source import PodSource

__all__ = ["PodSource"]
