"""The sysctls of a pod. A pod may set a sysctl only in its own namespaces."""

from __future__ import annotations

from collections.abc import Sequence

from nri.cri.pb import api_pb2 as pb
from nri.engine.support.sysctls import Sysctl, parse_sysctl
from nri.errors import RequestError

#: The namespace option of a pod that decides about each kind of sysctl. The UTS namespace follows the network.
_MODE = {"network": "network", "ipc": "ipc", "uts": "network"}


def pod_sysctls(config: pb.PodSandboxConfig, defaults: Sequence[Sysctl] = ()) -> list[Sysctl]:
    """The requested sysctls of a pod, and the engine's default sysctls for namespaces that the pod has.

    Raises RequestError if a sysctl has no namespace, shares its namespace with the node, has an invalid value, or is
    requested twice with different values.
    """
    options = config.linux.security_context.namespace_options
    sysctls: dict[tuple[str, ...], Sysctl] = {}
    for name, value in config.linux.sysctls.items():
        sysctl = parse_sysctl(name, value, f"linux.sysctls[{name}]")
        if getattr(options, _MODE[sysctl.kind]) == pb.NODE:
            reason = f"requires a separate {sysctl.kind} namespace, but the pod shares the node's"
            raise RequestError(sysctl.field, value, reason)
        other = sysctls.setdefault(sysctl.path, sysctl)
        if other.value != value:
            raise RequestError(
                sysctl.field, value, f"conflicts with {other.value!r} under another spelling of the name"
            )
    for sysctl in defaults:
        if getattr(options, _MODE[sysctl.kind]) != pb.NODE:
            sysctls.setdefault(sysctl.path, sysctl)
    return [*sysctls.values()]
