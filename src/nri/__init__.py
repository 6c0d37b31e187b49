"""NRI, the Node Resource Interface, in Python: plugins that adjust containers, and the runtime side of the interface.

This module has the public names, which are imported on first use. A plugin in ten lines:

    import nri

    class PodName(nri.Plugin):
        def create_container(self, pod, container):
            return nri.Adjustment().add_env("POD_NAME", pod.name)

    if __name__ == "__main__":
        PodName.main()
"""

from __future__ import annotations

from nri.lazy import lazy as _lazy  # `nri.lazy` stays the module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.api.annotations import effective_annotation
    from nri.api.builders.adjustment import Adjustment
    from nri.api.builders.answers import CreateAnswer, UpdateAnswer
    from nri.api.builders.eviction import Eviction
    from nri.api.builders.failure import FailurePolicy
    from nri.api.builders.update import Update
    from nri.api.builders.view import resources_of
    from nri.api.events import EventMask
    from nri.api.messages import Container, Event, LinuxResources, PodSandbox
    from nri.api.readers import (
        cpu_quota_of,
        cpu_shares_of,
        cpuset_cpus_of,
        cpuset_mems_of,
        devices_of,
        env_of,
        memory_limit_of,
        mounts_of,
        namespaces_of,
        pids_limit_of,
        rlimits_of,
    )
    from nri.api.validation import ValidationRequest
    from nri.errors import (
        ConfigError,
        ConflictError,
        ConnectionClosed,
        DeadlineExceeded,
        NriError,
        PluginError,
        PluginRejected,
        ProtocolError,
        RegistrationError,
        Reject,
        RpcError,
        RuntimeUnavailable,
        ValidationRejected,
    )
    from nri.stub.plugin import Plugin
    from nri.stub.session.background import every
    from nri.stub.support.pending import Pending
    from nri.stub.support.pod_filter import when


__all__ = [
    "Adjustment",
    "ConfigError",
    "ConflictError",
    "ConnectionClosed",
    "Container",
    "CreateAnswer",
    "DeadlineExceeded",
    "Event",
    "EventMask",
    "Eviction",
    "FailurePolicy",
    "LinuxResources",
    "NriError",
    "Pending",
    "Plugin",
    "PluginError",
    "PluginRejected",
    "PodSandbox",
    "ProtocolError",
    "RegistrationError",
    "Reject",
    "RpcError",
    "RuntimeUnavailable",
    "Update",
    "UpdateAnswer",
    "ValidationRejected",
    "ValidationRequest",
    "cpu_quota_of",
    "cpu_shares_of",
    "cpuset_cpus_of",
    "cpuset_mems_of",
    "devices_of",
    "effective_annotation",
    "env_of",
    "every",
    "memory_limit_of",
    "mounts_of",
    "namespaces_of",
    "pids_limit_of",
    "resources_of",
    "rlimits_of",
    "when",
]

if not TYPE_CHECKING:  # with it, a type checker would accept every misspelt name
    __getattr__, __dir__ = _lazy(
        globals(),
        {
            "api.annotations": "effective_annotation",
            "api.builders.adjustment": "Adjustment",
            "api.builders.answers": "CreateAnswer UpdateAnswer",
            "api.builders.eviction": "Eviction",
            "api.builders.failure": "FailurePolicy",
            "api.builders.update": "Update",
            "api.builders.view": "resources_of",
            "api.events": "EventMask",
            "api.messages": "Container Event LinuxResources PodSandbox",
            "api.readers": (
                "cpu_quota_of cpu_shares_of cpuset_cpus_of cpuset_mems_of devices_of env_of memory_limit_of "
                "mounts_of namespaces_of pids_limit_of rlimits_of"
            ),
            "api.validation": "ValidationRequest",
            "errors": (
                "ConfigError ConflictError ConnectionClosed DeadlineExceeded NriError PluginError "
                "PluginRejected ProtocolError RegistrationError Reject RpcError RuntimeUnavailable "
                "ValidationRejected"
            ),
            "stub.plugin": "Plugin",
            "stub.session.background": "every",
            "stub.support.pending": "Pending",
            "stub.support.pod_filter": "when",
        },
    )
