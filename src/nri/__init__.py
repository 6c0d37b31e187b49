"""NRI, the Node Resource Interface, in Python: plugins that adjust containers, and the runtime side that they talk to.

This module is the public face; names load when they are first used. A plugin in ten lines:

    import nri

    class PodName(nri.Plugin):
        def create_container(self, pod, container):
            return nri.Adjustment().add_env("POD_NAME", pod.name)

    if __name__ == "__main__":
        PodName.main()
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

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
    from nri.stub.support.when import when

_HOME = {
    "Adjustment": "nri.api.builders.adjustment",
    "ConfigError": "nri.errors",
    "ConflictError": "nri.errors",
    "ConnectionClosed": "nri.errors",
    "Container": "nri.api.messages",
    "CreateAnswer": "nri.api.builders.answers",
    "DeadlineExceeded": "nri.errors",
    "Event": "nri.api.messages",
    "EventMask": "nri.api.events",
    "Eviction": "nri.api.builders.eviction",
    "FailurePolicy": "nri.api.builders.failure",
    "LinuxResources": "nri.api.messages",
    "NriError": "nri.errors",
    "Pending": "nri.stub.support.pending",
    "Plugin": "nri.stub.plugin",
    "PluginError": "nri.errors",
    "PluginRejected": "nri.errors",
    "PodSandbox": "nri.api.messages",
    "ProtocolError": "nri.errors",
    "RegistrationError": "nri.errors",
    "Reject": "nri.errors",
    "RpcError": "nri.errors",
    "RuntimeUnavailable": "nri.errors",
    "Update": "nri.api.builders.update",
    "UpdateAnswer": "nri.api.builders.answers",
    "ValidationRejected": "nri.errors",
    "ValidationRequest": "nri.api.validation",
    "cpu_quota_of": "nri.api.readers",
    "cpu_shares_of": "nri.api.readers",
    "cpuset_cpus_of": "nri.api.readers",
    "cpuset_mems_of": "nri.api.readers",
    "devices_of": "nri.api.readers",
    "effective_annotation": "nri.api.annotations",
    "env_of": "nri.api.readers",
    "every": "nri.stub.session.background",
    "memory_limit_of": "nri.api.readers",
    "mounts_of": "nri.api.readers",
    "namespaces_of": "nri.api.readers",
    "pids_limit_of": "nri.api.readers",
    "resources_of": "nri.api.builders.view",
    "rlimits_of": "nri.api.readers",
    "when": "nri.stub.support.when",
}

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


if not TYPE_CHECKING:  # a checker that sees this takes every misspelt name for one that exists

    def __getattr__(name: str) -> Any:
        home = _HOME.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(home), name)
        return value


def __dir__() -> list[str]:
    return __all__
