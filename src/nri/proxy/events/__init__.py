"""The calls at which plugins are asked and told, and what they want of other containers.

Rules: knows the CRI's messages and NRI's; what it answers are bytes of a call, because what plugins do not change is
passed on as it came. Next: `call_context`, what the calls work with; then `pods` and `containers`.
"""

from nri.proxy.events.adoption import Adoption, Reconciler
from nri.proxy.events.call_context import CallContext
from nri.proxy.events.containers import ContainerCalls
from nri.proxy.events.domain import Domain
from nri.proxy.events.exits import Exits
from nri.proxy.events.pods import PodCalls
from nri.proxy.events.runtime_queries import RuntimeQueries

__all__ = ["Adoption", "CallContext", "ContainerCalls", "Domain", "Exits", "PodCalls", "Reconciler", "RuntimeQueries"]
