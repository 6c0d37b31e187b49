"""The calls in which plugins are involved, and the updates that plugins request for other containers."""

from nri.proxy.events.adoption import Adoption, Reconciler
from nri.proxy.events.call_context import CallContext
from nri.proxy.events.containers import ContainerCalls
from nri.proxy.events.domain import Domain
from nri.proxy.events.exits import Exits
from nri.proxy.events.pods import PodCalls
from nri.proxy.events.runtime_queries import RuntimeQueries

__all__ = ["Adoption", "CallContext", "ContainerCalls", "Domain", "Exits", "PodCalls", "Reconciler", "RuntimeQueries"]
