"""The calls at which plugins are asked and told, and what they want of other containers.

Rules: knows the CRI's messages and NRI's; what it answers are bytes of a call, because what plugins do not change is
passed on as it came. Next: `parts`, what the calls work with; then `pods` and `containers`.
"""

from nri.proxy.events.adoption import Adoption
from nri.proxy.events.containers import ContainerCalls
from nri.proxy.events.domain import Domain
from nri.proxy.events.exits import Exits
from nri.proxy.events.inquiry import Inquiry
from nri.proxy.events.parts import Parts
from nri.proxy.events.pods import PodCalls
from nri.proxy.events.reconciler import Reconciler
from nri.proxy.events.updates import Updates

__all__ = ["Adoption", "ContainerCalls", "Domain", "Exits", "Inquiry", "Parts", "PodCalls", "Reconciler", "Updates"]
