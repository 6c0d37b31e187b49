"""Version, Status, UpdateRuntimeConfig and RuntimeConfig: calls about the engine itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from nri.cri.client import RELOAD_KEY
from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.call import Call
from nri.engine.support.errors import EngineError
from nri.user_agent import package_version

NAME = "nri-engine"
#: The version of the CRI.
API_VERSION = "v1"
#: The version that kubelets expect in the field `version` of the call Version. It has not changed since 2016.
KUBELET_VERSION = "0.1.0"


class Facts(NamedTuple):
    """The functions that provide the content of replies.

    Attributes:
        conditions: returns the conditions of Status, including RuntimeReady and NetworkReady, which kubelets check.
        handlers: returns the runtime handlers and their features. The key "" has the default handler.
        cgroup_driver: ``cgroupfs`` or ``systemd``.
        details: returns additional values for verbose requests. They are encoded as JSON.
        use_pod_cidr: takes the node's address ranges.
        reload: reads the engine's settings again; None if clients may not request that.
    """

    conditions: Callable[[], Sequence[pb.RuntimeCondition]]
    handlers: Callable[[], Mapping[str, pb.RuntimeHandlerFeatures]]
    cgroup_driver: str
    details: Callable[[], Mapping[str, Any]]
    use_pod_cidr: Callable[[str], None]
    reload: Callable[[], None] | None = None


class RuntimeInfoCalls:
    """Answers the calls about the engine itself."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._pod_cidr = ""

    def version(self, request: pb.VersionRequest, call: Call) -> pb.VersionResponse:
        """Report the name and version of the engine, and the version of the CRI."""
        return pb.VersionResponse(
            version=KUBELET_VERSION,
            runtime_name=NAME,
            runtime_version=package_version(),
            runtime_api_version=API_VERSION,
        )

    def status(self, request: pb.StatusRequest, call: Call) -> pb.StatusResponse:
        """Report whether pods can be created, and the runtime handlers with their features."""
        handlers = [
            pb.RuntimeHandler(name=name, features=features) for name, features in self._facts.handlers().items()
        ]
        details = {**self._facts.details(), "podCIDR": self._pod_cidr} if request.verbose else {}
        return pb.StatusResponse(
            status=pb.RuntimeStatus(conditions=self._facts.conditions()),
            runtime_handlers=handlers,
            features=pb.RuntimeFeatures(supplemental_groups_policy=True, user_namespaces_host_network=True),
            info={key: json.dumps(value, default=str) for key, value in details.items()},
        )

    def update_runtime_config(
        self, request: pb.UpdateRuntimeConfigRequest, call: Call
    ) -> pb.UpdateRuntimeConfigResponse:
        """Take the node's address ranges: Status reports them, and a template of the pod network uses them.

        If the call's metadata requests it, the engine reloads its settings instead. A kubelet never sends this.
        """
        if call.metadata(RELOAD_KEY):
            if self._facts.reload is None:
                raise EngineError("settings are reloaded at the engine's own socket, not at the socket of a domain")
            self._facts.reload()
            return pb.UpdateRuntimeConfigResponse()
        if pod_cidr := request.runtime_config.network_config.pod_cidr:
            self._facts.use_pod_cidr(pod_cidr)
            self._pod_cidr = pod_cidr
        return pb.UpdateRuntimeConfigResponse()

    def runtime_config(self, request: pb.RuntimeConfigRequest, call: Call) -> pb.RuntimeConfigResponse:
        """Report the cgroup driver, which the kubelet then uses, too."""
        driver = pb.SYSTEMD if self._facts.cgroup_driver == "systemd" else pb.CGROUPFS
        return pb.RuntimeConfigResponse(linux=pb.LinuxRuntimeConfiguration(cgroup_driver=driver))
