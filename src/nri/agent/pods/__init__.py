"""Sources of this node's pods as API objects: an apiserver, the kubelet, the runtime's CRI, NRI, or files."""

from nri.agent.pods.source import PodSource

__all__ = ["PodSource"]
