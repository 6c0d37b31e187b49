"""Version, Status, UpdateRuntimeConfig and RuntimeConfig: the engine about itself.

Only the range of addresses of UpdateRuntimeConfig is remembered; every answer is the state at that moment.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.call import Call

NAME = "nri-engine"
#: Of the CRI's messages, and of the kubelet's side of the call Version, which has not moved since 2016.
API_VERSION, KUBELET_VERSION = "v1", "0.1.0"


class Facts(NamedTuple):
    """The sources of the answers.

    Attributes:
        conditions: asked at each Status; RuntimeReady and NetworkReady, which the kubelet asks for, among them.
        handlers: the runtime handlers and what each can do; the default one also under "".
        cgroup_driver: ``cgroupfs`` or ``systemd``.
        details: more for people who ask verbosely; JSON can be made of it.
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
        """Names and versions."""
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
        """Take note of the node's range of addresses: networks are CNI's, so nothing is made of it."""
        self._pod_cidr = request.runtime_config.network_config.pod_cidr or self._pod_cidr
        return pb.UpdateRuntimeConfigResponse()

    def runtime_config(self, request: pb.RuntimeConfigRequest, call: Call) -> pb.RuntimeConfigResponse:
        """The cgroup driver, which a kubelet takes over."""
        driver = pb.SYSTEMD if self._facts.cgroup_driver == "systemd" else pb.CGROUPFS
        return pb.RuntimeConfigResponse(linux=pb.LinuxRuntimeConfiguration(cgroup_driver=driver))
