"""Version, Status, UpdateRuntimeConfig and RuntimeConfig: calls about the engine itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.call import Call

NAME = "nri-engine"
#: The version of the CRI's messages, and of the kubelet's side of the call Version, unchanged since 2016.
API_VERSION, KUBELET_VERSION = "v1", "0.1.0"


class Facts(NamedTuple):
    """The sources of the answers, called for each answer.

    Attributes:
        conditions: the conditions of Status, including RuntimeReady and NetworkReady, which the kubelet checks.
        handlers: the runtime handlers and their features; the default handler also under "".
        cgroup_driver: ``cgroupfs`` or ``systemd``.
        details: additional values for verbose requests, which JSON can represent.
    """

    conditions: Callable[[], Sequence[pb.RuntimeCondition]]
    handlers: Callable[[], Mapping[str, pb.RuntimeHandlerFeatures]]
    cgroup_driver: str
    details: Callable[[], Mapping[str, Any]]


class RuntimeInfoCalls:
    """The calls about the engine itself."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._pod_cidr = ""

    def version(self, request: pb.VersionRequest, call: Call) -> pb.VersionResponse:
        """Names and versions of the engine and its API."""
        return pb.VersionResponse(
            version=KUBELET_VERSION,
            runtime_name=NAME,
            runtime_version=version("nri"),
            runtime_api_version=API_VERSION,
        )

    def status(self, request: pb.StatusRequest, call: Call) -> pb.StatusResponse:
        """Whether pods can be created, and the runtime handlers with their features."""
        handlers = [
            pb.RuntimeHandler(name=name, features=features) for name, features in self._facts.handlers().items()
        ]
        details = {**self._facts.details(), "podCIDR": self._pod_cidr} if request.verbose else {}
        return pb.StatusResponse(
            status=pb.RuntimeStatus(conditions=self._facts.conditions()),
            runtime_handlers=handlers,
            features=pb.RuntimeFeatures(supplemental_groups_policy=True),
            info={key: json.dumps(value, default=str) for key, value in details.items()},
        )

    def update_runtime_config(
        self, request: pb.UpdateRuntimeConfigRequest, call: Call
    ) -> pb.UpdateRuntimeConfigResponse:
        """Record the node's address range. Nothing else uses it, because CNI configures networks."""
        self._pod_cidr = request.runtime_config.network_config.pod_cidr or self._pod_cidr
        return pb.UpdateRuntimeConfigResponse()

    def runtime_config(self, request: pb.RuntimeConfigRequest, call: Call) -> pb.RuntimeConfigResponse:
        """The cgroup driver, which a kubelet adopts."""
        driver = pb.SYSTEMD if self._facts.cgroup_driver == "systemd" else pb.CGROUPFS
        return pb.RuntimeConfigResponse(linux=pb.LinuxRuntimeConfiguration(cgroup_driver=driver))
