"""Pods and containers from creation to removal: steps that change the machine, their undos, the calls of plugins.

Rules: this room joins the others (state, processes, images, specs, networks) and NRI; it knows no gRPC. A request is
one method of `Pods` or `Containers`; every end of a container is handled by `ExitHandler`; plugins are called in
`Domain` alone. Modules in the order of a request: `inventory`, `status`, `bus`, `hub`, `resources`, `processes`,
`domain`, `exit_handler`, `pod_steps`, `pods`, `creation`, `containers`, `updates`, `replay`; `parts` is below them all.
Next: :mod:`nri.engine.lifecycle.parts`.
"""

from nri.engine.lifecycle.bus import EventBus, Subscription
from nri.engine.lifecycle.containers import Containers
from nri.engine.lifecycle.domain import Domain
from nri.engine.lifecycle.hub import NriDomain, NriHub
from nri.engine.lifecycle.inventory import ContainerEntry, PodEntry
from nri.engine.lifecycle.pods import Pods
from nri.engine.lifecycle.status import container_status, pod_status

__all__ = [
    "ContainerEntry",
    "Containers",
    "Domain",
    "EventBus",
    "NriDomain",
    "NriHub",
    "PodEntry",
    "Pods",
    "Subscription",
    "container_status",
    "pod_status",
]
