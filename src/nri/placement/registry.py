"""The registry of placement policies.

A new policy is a package below `nri.placement`, a plugin of the same name in `nri.plugins`, and a row here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nri.kube.client.objects import Kind
    from nri.placement.policy import PolicyType


class PolicyRow(NamedTuple):
    """A policy that is loaded when it is used.

    Attributes:
        name: the name of the policy, of its plugin, and of the plugin's socket and state file.
        resource_kind: the kind of its custom resource.
        resource_plural: the resource's name in URLs.
        sample: a `spec` that works on any machine.
        policy: module and name of its class.
    """

    name: str
    resource_kind: str
    resource_plural: str
    sample: Mapping[str, Any]
    policy: str

    def load(self) -> PolicyType:
        """Import the policy's class."""
        module, _, name = self.policy.partition(":")
        policy_type: PolicyType = getattr(import_module(module), name)
        return policy_type

    @property
    def resource(self) -> Kind:
        """The kind of its custom resource for the apiserver client."""
        from nri.kube.client.objects import Kind

        return Kind(self.resource_kind, "config.nri", "v1alpha1", self.resource_plural)


_ROWS = (
    PolicyRow(
        "topology-aware",
        "TopologyAwarePolicy",
        "topologyawarepolicies",
        {"reservedResources": {"cpu": "1"}},
        "nri.placement.topology_aware.policy:TopologyAware",
    ),
    PolicyRow(
        "balloons",
        "BalloonsPolicy",
        "balloonspolicies",
        {"reservedResources": {"cpu": "1"}},
        "nri.placement.balloons.policy:Balloons",
    ),
)
#: Policies by name.
POLICIES: Final = {row.name: row for row in _ROWS}
DEFAULT_POLICY: Final = _ROWS[0]
#: The names of all policies, for messages.
POLICY_NAMES: Final = " or ".join(POLICIES)
#: The kinds of all policy resources, for messages.
RESOURCE_KINDS: Final = " or ".join(row.resource_kind for row in _ROWS)
