"""Build OCI specs from a request of the CRI and an image's configuration. A spec is a dict as in config.json.

The functions have no side effects: features of the machine, accounts and devices are arguments (`inputs`). If a value
is invalid, they raise `nri.errors.RequestError` with field and value. The notes of a result list the values that are
left out on purpose. `nri.oci` injects CDI devices.
"""

from nri.engine.spec.base import Base, base_of, base_problems, joined_bases, joined_hooks
from nri.engine.spec.container import container_spec
from nri.engine.spec.inputs import Account, Device, ImageConfig, Machine, Options, Pod, Result
from nri.engine.spec.limits import check_path, check_pod
from nri.engine.spec.mounts import image_volumes
from nri.engine.spec.pod import pod_spec
from nri.engine.spec.process import adjusted_signal, effective_signal, stop_signal
from nri.engine.spec.resources import container_resources
from nri.engine.spec.security import localhost_profile
from nri.engine.spec.sysctls import pod_sysctls
from nri.engine.spec.user import RequestedUser, find_account, parse_id, requested_user

__all__ = [
    "Account",
    "Base",
    "Device",
    "ImageConfig",
    "Machine",
    "Options",
    "Pod",
    "RequestedUser",
    "Result",
    "adjusted_signal",
    "base_of",
    "base_problems",
    "check_path",
    "check_pod",
    "container_resources",
    "container_spec",
    "effective_signal",
    "find_account",
    "image_volumes",
    "joined_bases",
    "joined_hooks",
    "localhost_profile",
    "parse_id",
    "pod_spec",
    "pod_sysctls",
    "requested_user",
    "stop_signal",
]
