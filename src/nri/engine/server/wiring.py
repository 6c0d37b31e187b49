"""The groups of calls over one engine.

One job: :func:`cri_server`. Next: `nri.engine.services`, what they do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from nri.cri.pb import api_pb2 as pb
from nri.engine.engine import Engine
from nri.engine.server.server import Server
from nri.engine.services.containers import ContainerCalls
from nri.engine.services.events import EventCalls
from nri.engine.services.execution import ExecutionCalls, Streaming
from nri.engine.services.images import ImageCalls
from nri.engine.services.metrics import MetricCalls
from nri.engine.services.pods import PodCalls
from nri.engine.services.readings import Readings
from nri.engine.services.runtime_info import Facts, RuntimeInfoCalls
from nri.engine.services.stats import StatsCalls

__all__ = ["cri_server"]


def cri_server(engine: Engine, streaming: Streaming) -> Server:
    """The CRI of an engine, at the socket of its configuration; `streaming` gives addresses for exec and the like."""
    pods, containers, images = engine.pods, engine.containers, engine.images
    readings = Readings(pods, containers, images)
    groups = [
        RuntimeInfoCalls(_facts(engine)),
        PodCalls(pods, containers),
        ContainerCalls(containers),
        ExecutionCalls(pods, containers, streaming),
        StatsCalls(readings),
        EventCalls(engine.events),
        MetricCalls(readings),
        ImageCalls(images),
    ]
    return Server(engine.config.socket, groups, before_stop=engine.events.close)


def _facts(engine: Engine) -> Facts:
    config = engine.config

    def conditions() -> list[pb.RuntimeCondition]:
        return [
            pb.RuntimeCondition(type=each.kind, status=each.holds, reason=each.reason, message=each.message)
            for each in engine.conditions
        ]

    def handlers() -> Mapping[str, pb.RuntimeHandlerFeatures]:
        made = {}
        for name in config.runtimes:
            machine = engine.machinery.machine_of(name)
            made[name] = pb.RuntimeHandlerFeatures(
                recursive_read_only_mounts=machine.recursive_read_only, user_namespaces=machine.idmapped_mounts
            )
        return {"": made[config.default_runtime], **made}

    return Facts(conditions, handlers, config.cgroups.driver, lambda: {"config": dataclasses.asdict(config)})
