"""Networks of pods: pinned namespaces, and CNI plugins called in them.

Knows no pod and no CRI message; what ADD has begun, DEL takes back, also after a restart, because the answer of
each ADD is kept on disk.
"""

from nri.engine.network.cni import Cni
from nri.engine.network.configuration import Network, find_network
from nri.engine.network.netns import NetworkNamespaces
from nri.engine.network.results import Attached, PortMapping

__all__ = ["Attached", "Cni", "Network", "NetworkNamespaces", "PortMapping", "find_network"]
