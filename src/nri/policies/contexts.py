"""Contexts: what a hook knows of the pod, the container, the kube-QoS folder or the host application it decides for.

A value that no transport gave is None or empty; resources that are zero in a message are "not set". How messages become
contexts is in `nri.agent.koordinator.hook_fields`. Next: `nri.policies.changes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction

__all__ = [
    "ContainerContext",
    "ExtendedResources",
    "HostApplicationContext",
    "KubeQosContext",
    "PodContext",
    "Resources",
    "RoomContext",
    "while_created",
]


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources set already. Quota in microseconds, memory in bytes; -1 is unlimited, None not set or not known."""

    cpu_shares: int | None = None
    cfs_quota: int | None = None
    cpuset: str | None = None
    memory_limit: int | None = None
    cfs_period: int | None = None
    oom_score_adj: int | None = None


@dataclass(frozen=True, slots=True)
class ExtendedResources:
    """The amounts that one container asks of the resources that Kubernetes itself does not enforce."""

    requests: Mapping[str, Fraction] = field(default_factory=dict)
    limits: Mapping[str, Fraction] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PodContext:
    """A pod. `cgroup_parent` is its folder below the root of the cgroups; `tasks` are its thread ids by container.

    `host_network` is whether it has the network of the node.
    """

    namespace: str = ""
    name: str = ""
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    cgroup_parent: str = ""
    resources: Resources | None = None
    extended: Mapping[str, ExtendedResources] | None = None
    tasks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    host_network: bool = False


@dataclass(frozen=True, slots=True)
class ContainerContext:
    """A container of a pod. `id` has its runtime in front (`containerd://...`), `sandbox` is the pause container."""

    pod: PodContext = field(default_factory=PodContext)
    id: str = ""
    name: str = ""
    cgroup_parent: str = ""
    sandbox: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    resources: Resources | None = None
    extended: ExtendedResources | None = None


@dataclass(frozen=True, slots=True)
class RoomContext(ContainerContext):
    """A container that runs, while another one, `new`, is about to be created."""

    new: ContainerContext = field(default_factory=ContainerContext)


def while_created(container: ContainerContext, new: ContainerContext) -> RoomContext:
    """Return the context of a container that runs, while another one is about to be created."""
    return RoomContext(**{each.name: getattr(container, each.name) for each in fields(ContainerContext)}, new=new)


@dataclass(frozen=True, slots=True)
class KubeQosContext:
    """The folder of a Kubernetes QoS class."""

    kube_class: str
    cgroup_parent: str = ""


@dataclass(frozen=True, slots=True)
class HostApplicationContext:
    """A program of the host that NodeSLO lists, with its QoS class and folder."""

    name: str
    qos: str = ""
    cgroup_parent: str = ""
