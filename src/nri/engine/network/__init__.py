"""Networks of pods: pinned network namespaces, and CNI plugins."""

from nri.engine.network.cni import Cni
from nri.engine.network.configuration import Network, find_network
from nri.engine.network.netns import NetworkNamespaces
from nri.engine.network.results import Attached, PortMapping

__all__ = ["Attached", "Cni", "Network", "NetworkNamespaces", "PortMapping", "find_network"]
