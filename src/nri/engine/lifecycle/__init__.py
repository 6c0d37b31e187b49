"""The lives of pods and containers: steps that change the machine, their undos, the moments at which plugins are told.

Rules: this room joins the others (state, processes, images, specs, networks) and NRI; it knows no gRPC. A request is
one method of `Pods` or `Containers`; all ends go through `Ends`; plugins are called in `Domain` alone. Modules in the
order of a request: `lives`, `status`, `bus`, `hub`, `resources`, `domain`, `ends`, `pod_steps`, `pods`, `creation`,
`containers`, `updates`, `replay`; `parts` is below them all. Next: :mod:`nri.engine.lifecycle.parts`.
"""

from nri.engine.lifecycle.bus import EventBus, Subscription
from nri.engine.lifecycle.containers import Containers
from nri.engine.lifecycle.domain import Domain
from nri.engine.lifecycle.hub import NriDomain, NriHub
from nri.engine.lifecycle.lives import ContainerLife, PodLife
from nri.engine.lifecycle.pods import Pods
from nri.engine.lifecycle.status import container_status, pod_status

__all__ = [
    "ContainerLife",
    "Containers",
    "Domain",
    "EventBus",
    "NriDomain",
    "NriHub",
    "PodLife",
    "Pods",
    "Subscription",
    "container_status",
    "pod_status",
]
