"""A client of the apiserver for an agent on one node: it follows a few kinds of objects, and evicts pods.

The client requires the extra `agent`, and imports it when it connects. `connection` lists, watches and evicts; only
`http` uses lightkube; `objects` has the kinds that can be followed, and reads answers and errors; `follow` lists and
watches until it is stopped.

    with connect("/etc/kubernetes/kubelet.conf") as api:
        pods = Follower(api, PODS, lambda pods: print(len(pods)), fields="spec.nodeName=node-1")
        pods.start()

The required permissions are in ``deploy/agent/rbac.yaml``.
"""

from nri.kube.client.connection import Apiserver, connect
from nri.kube.client.follow import Follower
from nri.kube.client.objects import KINDS, NODE_SLOS, NODE_TOPOLOGIES, NODES, PODS, ApiserverError, Kind

__all__ = [
    "KINDS",
    "NODES",
    "NODE_SLOS",
    "NODE_TOPOLOGIES",
    "PODS",
    "Apiserver",
    "ApiserverError",
    "Follower",
    "Kind",
    "connect",
]
