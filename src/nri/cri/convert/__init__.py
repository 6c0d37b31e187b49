"""Between the CRI's messages and NRI's: pods, containers, resources.

Rules: pure functions. What the other side has no place for comes back as a list of what was dropped, never silently.
What plugins see of a container is its OCI spec (a plain dict) and what the spec does not say, from the request.
Next: `pod` and `container`, for events; `resources`, for requests and updates; `spec_fields`, which reads specs;
`requested`, for those who see requests only; `dropped`, the list.
"""

from nri.cri.convert.container import container
from nri.cri.convert.dropped import Converted, Dropped
from nri.cri.convert.pod import pod_sandbox
from nri.cri.convert.requested import requested
from nri.cri.convert.resources import from_oci, to_cri, to_nri

__all__ = ["Converted", "Dropped", "container", "from_oci", "pod_sandbox", "requested", "to_cri", "to_nri"]
