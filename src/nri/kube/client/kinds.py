"""The kinds of objects that an agent follows, as rows: where each of them is in the API. Pure.

Next: `nri.kube.client.connection`.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote

__all__ = ["NODES", "NODE_SLOS", "NODE_TOPOLOGIES", "PODS", "Kind"]


class Kind(NamedTuple):
    """A kind of the API: its name, its group ("" is the core), its version, and its name in URLs."""

    name: str
    group: str
    version: str
    plural: str

    @property
    def path(self) -> str:
        """The URL's path of all objects of the kind, in all namespaces, without a slash in front."""
        return "/".join([*(("apis", self.group) if self.group else ("api",)), self.version, self.plural])

    def in_namespace(self, namespace: str, name: str, part: str = "") -> str:
        """The URL's path of one object, or of a part of it such as `eviction`."""
        head, _, plural = self.path.rpartition("/")
        words = [head, "namespaces", quote(namespace, safe=""), plural, quote(name, safe=""), part]
        return "/".join(word for word in words if word)

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


PODS = Kind("Pod", "", "v1", "pods")
NODES = Kind("Node", "", "v1", "nodes")
NODE_SLOS = Kind("NodeSLO", "slo.koordinator.sh", "v1alpha1", "nodeslos")
NODE_TOPOLOGIES = Kind("NodeResourceTopology", "topology.node.k8s.io", "v1alpha1", "noderesourcetopologies")
