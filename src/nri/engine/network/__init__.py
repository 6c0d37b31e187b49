"""Networks of pods: pinned network namespaces, and CNI plugins."""

from nri.engine.network.cni import Cni
from nri.engine.network.configuration import Network, find_networks
from nri.engine.network.netns import NetworkNamespaces
from nri.engine.network.results import NetworkAttachment, PortMapping, bandwidth_limits
from nri.engine.network.template import Template, read_template, values_of, write_network

__all__ = [
    "Cni",
    "Network",
    "NetworkAttachment",
    "NetworkNamespaces",
    "PortMapping",
    "Template",
    "bandwidth_limits",
    "find_networks",
    "read_template",
    "values_of",
    "write_network",
]
