"""The placement policies, one row each.

A new policy is a package below `nri.placement`, a plugin of the same name in `nri.plugins`, and a row here. The rows
are read by `nri placement`, the doctor and the inspector; a policy itself loads when it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nri.kube.client.objects import Kind
    from nri.placement.policy import PolicyType


class PolicyRow(NamedTuple):
    """One policy.

    Attributes:
        name: of the policy and its plugin, of the plugin's socket and of its state file.
        resource_kind: the kind of its custom resource; `resource_plural` is its name in URLs.
        sample: a `spec` with which it runs on any machine.
        policy: the module and the name of its class.
    """

    name: str
    resource_kind: str
    resource_plural: str
    sample: Mapping[str, Any]
    policy: str

    def load(self) -> PolicyType:
        """The policy's class."""
        module, _, name = self.policy.partition(":")
        policy_type: PolicyType = getattr(import_module(module), name)
        return policy_type

    @property
    def resource(self) -> Kind:
        """Its custom resource at an API server."""
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
#: By name; the first one is the default.
POLICIES: Final = {row.name: row for row in _ROWS}
DEFAULT_POLICY: Final = _ROWS[0]
#: The names of all policies, and the kinds of their resources, for texts.
POLICY_NAMES: Final = " or ".join(POLICIES)
RESOURCE_KINDS: Final = " or ".join(row.resource_kind for row in _ROWS)
