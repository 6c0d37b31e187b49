"""Convert pods, containers and resources between the CRI's messages and NRI's.

Fields without a counterpart are returned as a list, never dropped silently. The fields that plugins get of a container
come from its OCI spec, or from the request if the spec does not have the field.
"""

from nri.cri.convert.dropped import Conversion, DroppedField
from nri.cri.convert.nri_messages import container, pod_sandbox, requested
from nri.cri.convert.resources import from_oci, to_cri, to_nri

__all__ = ["Conversion", "DroppedField", "container", "from_oci", "pod_sandbox", "requested", "to_cri", "to_nri"]
