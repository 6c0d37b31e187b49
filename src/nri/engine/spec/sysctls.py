"""The sysctls of a pod: only those that its own namespaces have."""

from __future__ import annotations

from collections.abc import Sequence

from nri.cri.pb import api_pb2 as pb
from nri.engine.support.sysctls import Sysctl, parse_sysctl
from nri.errors import RequestError

#: The option of a pod that determines each namespace.
_MODE = {"network": "network", "ipc": "ipc", "uts": "network"}


def pod_sysctls(config: pb.PodSandboxConfig, defaults: Sequence[Sysctl] = ()) -> list[Sysctl]:
    """The sysctls of a pod, without duplicates: those of the request, and the engine's for namespaces of the pod.

    Raises:
        RequestError: the sysctl is not namespaced, its namespace is shared with the node, it is requested with two
            values, or the value is invalid.
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
    own = [sysctl for sysctl in defaults if getattr(options, _MODE[sysctl.kind]) != pb.NODE]
    return [*sysctls.values(), *(sysctl for sysctl in own if sysctl.path not in sysctls)]
