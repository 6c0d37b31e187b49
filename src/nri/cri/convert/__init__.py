"""Between the CRI's messages and NRI's: pods, containers, resources.

Rules: pure functions. Fields that the other side has no place for come back as a list of what was dropped, never
silently. Plugins see of a container its OCI spec (a plain dict), and from the request what the spec does not say. Next:
`nri_messages`, for events; `resources`, for requests and updates; `dropped`, the list.
"""

from nri.cri.convert.dropped import Converted, Dropped
from nri.cri.convert.nri_messages import container, pod_sandbox, requested
from nri.cri.convert.resources import from_oci, to_cri, to_nri

__all__ = ["Converted", "Dropped", "container", "from_oci", "pod_sandbox", "requested", "to_cri", "to_nri"]
