"""Records as the CRI's statuses: for answers to clients, and for plugins.

Rules: pure. The CRI knows two states of a pod and four of a container.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from google.protobuf import json_format

from nri.cri.pb import api_pb2 as pb
from nri.engine.lifecycle.inventory import ContainerEntry, PodEntry
from nri.engine.state import ContainerState, PodState

__all__ = ["STATES", "container_status", "log_path", "pod_status", "progress"]

#: States of containers in the CRI's words.
STATES = {
    ContainerState.CREATING: pb.CONTAINER_CREATED,
    ContainerState.CREATED: pb.CONTAINER_CREATED,
    ContainerState.STARTING: pb.CONTAINER_CREATED,
    ContainerState.RUNNING: pb.CONTAINER_RUNNING,
    ContainerState.EXITED: pb.CONTAINER_EXITED,
    ContainerState.REMOVING: pb.CONTAINER_EXITED,
    ContainerState.UNKNOWN: pb.CONTAINER_UNKNOWN,
}


def pod_status(entry: PodEntry) -> pb.PodSandboxStatus:
    """The status of a pod."""
    record = entry.record
    made = pb.PodSandboxStatus(
        id=record.id,
        metadata=entry.config.metadata,
        state=pb.SANDBOX_READY if record.state is PodState.READY else pb.SANDBOX_NOTREADY,
        created_at=record.created_at_ns,
        labels=record.labels,
        annotations=record.annotations,
        runtime_handler=record.runtime_handler,
    )
    made.network.ip = record.ips[0] if record.ips else ""
    made.network.additional_ips.extend(pb.PodIP(ip=ip) for ip in record.ips[1:])
    made.linux.namespaces.options.CopyFrom(entry.config.linux.security_context.namespace_options)
    return made


def progress(entry: ContainerEntry) -> pb.ContainerStatus:
    """The part of a container's status that plugins get: how far it has come, and its image.

    All of it, with its mounts and resources out of JSON, takes several times as long.
    """
    record = entry.record
    return pb.ContainerStatus(
        id=record.id,
        state=STATES[record.state],
        created_at=record.created_at_ns,
        started_at=record.started_at_ns,
        finished_at=record.finished_at_ns,
        exit_code=record.exit_code,
        image_ref=record.image_ref,
        image_id=record.image_id,
        reason=record.reason,
        message=record.message,
    )


def container_status(entry: ContainerEntry) -> pb.ContainerStatus:
    """The status of a container."""
    record, config = entry.record, entry.config
    made = progress(entry)
    made.MergeFrom(
        pb.ContainerStatus(
            metadata=config.metadata,
            image=config.image,
            labels=record.labels,
            annotations=record.annotations,
            mounts=_mounts(record.mounts),
            log_path=record.log_path,
            stop_signal=config.stop_signal,
        )
    )
    if record.image:
        made.image.image = record.image
    json_format.ParseDict(record.resources, made.resources.linux, ignore_unknown_fields=True)
    json_format.ParseDict(record.user, made.user.linux, ignore_unknown_fields=True)
    return made


def _mounts(rows: Sequence[dict[str, Any]]) -> list[pb.Mount]:
    return [json_format.ParseDict(row, pb.Mount(), ignore_unknown_fields=True) for row in rows]


def log_path(pod: PodEntry, config: pb.ContainerConfig) -> str:
    """The path of a container's log; "" for none."""
    folder = pod.config.log_directory
    return os.path.join(folder, config.log_path) if folder and config.log_path else ""
