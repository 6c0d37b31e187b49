"""CRI configurations and an image's configuration become OCI specs: plain dicts, as config.json has them.

Pure functions. The machine's abilities, the account of a user name, the device of a path: all of it comes in as
values (`inputs`), found out by others. A value that cannot be used is a `nri.errors.RequestError` with field and value;
what is left out for a good reason is in the result's notes. CDI devices are not resolved here but by `nri.oci`.
Modules: `container` and `pod` put the parts together, which are `process`, `user`, `mounts`, `devices`,
`capabilities`, `limits`, `namespaces`, `security`, `seccomp`, `sysctls` and `resources`.
"""

from nri.engine.spec.container import container_spec
from nri.engine.spec.inputs import Account, Device, ImageConfig, Machine, Options, Pod, Result
from nri.engine.spec.limits import check_path, check_pod
from nri.engine.spec.pod import pod_spec
from nri.engine.spec.process import stop_signal
from nri.engine.spec.resources import container_resources
from nri.engine.spec.security import localhost_profile
from nri.engine.spec.sysctls import Sysctl, pod_sysctls
from nri.engine.spec.user import WantedUser, find_account, parse_id, wanted_user

__all__ = [
    "Account",
    "Device",
    "ImageConfig",
    "Machine",
    "Options",
    "Pod",
    "Result",
    "Sysctl",
    "WantedUser",
    "check_path",
    "check_pod",
    "container_resources",
    "container_spec",
    "find_account",
    "localhost_profile",
    "parse_id",
    "pod_spec",
    "pod_sysctls",
    "stop_signal",
    "wanted_user",
]
