"""Read the kubelet's requests from a runtime's verbose status of a pod or container.

containerd uses the CRI's field names (`cgroup_parent`). This project's engine uses the CRI's JSON names
(`cgroupParent`, numbers as strings). CRI-O reports only the resulting OCI spec, which was adjusted and so is not the
request. Missing or malformed keys count as unknown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from nri.agent import cgroup_paths as paths
from nri.cri.pb import api_pb2 as pb
from nri.cri.verbose import parse_info

#: The annotation of a container with two numbers: the requested CPU quota, and the quota that the agent set instead.
ASKED_QUOTA = "agent.nri/cfs-quota"
_MAX_DIGITS = 19  # of a number that fits into 64 bits
_CPU_PERIOD_US = 100_000
#: The name of a slice of systemd.
_SLICE = re.compile(r"[\w.@-]+\.slice")


@dataclass(frozen=True, slots=True)
class PodInfo:
    """A runtime's data about a pod: its cgroup, the QoS class of the cgroup, and whether it uses the host network."""

    folder: str = ""
    qos_class: str = ""
    host_network: bool = False


@dataclass(frozen=True, slots=True)
class ContainerInfo:
    """A runtime's data about a container: fields of the pod's spec, and the OOM score that the kubelet requested."""

    spec: dict[str, Any] = field(default_factory=dict)
    oom_score: int | None = None


def pod_info(answer: pb.PodSandboxStatusResponse) -> PodInfo:
    """Read the verbose status of a pod."""
    info = parse_info(answer.info)
    parent = _text(_at(info, "config", "linux", "cgroup_parent")) or _folder_of(_at(info, "runtimeSpec"))
    options = answer.status.linux.namespaces.options
    return PodInfo(
        folder=parent,
        qos_class=paths.kube_class_of(parent) if parent else "",
        host_network=answer.status.HasField("linux") and options.network == pb.NODE,
    )


def container_info(answer: pb.ContainerStatusResponse) -> ContainerInfo:
    """Read the verbose status of a container.

    Behind the agent's proxy, the configuration has a scaled quota, and an annotation has the requested quota.
    """
    info = parse_info(answer.info)
    resources = _at(info, "config", "linux", "resources")
    if not isinstance(resources, dict):
        return ContainerInfo()
    shares, quota = _number(_at(resources, "cpu_shares")), _number(_at(resources, "cpu_quota"))
    annotations = _at(info, "config", "annotations")
    requested, _, scaled = _text(annotations.get(ASKED_QUOTA) if isinstance(annotations, dict) else "").partition(" ")
    if (
        quota > 0
        and scaled == str(quota)
        and requested.isascii()
        and requested.isdecimal()
        and len(requested) < _MAX_DIGITS
    ):
        quota = int(requested)
    period = _number(_at(resources, "cpu_period")) or _CPU_PERIOD_US
    memory, score = _number(_at(resources, "memory_limit_in_bytes")), _at(resources, "oom_score_adj")
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    if shares > 2:  # 2 is the kubelet's value for a container without a request
        requests["cpu"] = f"{-(-shares * 1000 // 1024)}m"
    if quota > 0:
        limits["cpu"] = f"{quota * 1000 // period}m"
    if memory > 0:
        limits["memory"] = str(memory)
    return ContainerInfo(
        {"resources": {"requests": requests, "limits": limits}}, None if score is None else _number(score)
    )


def _at(tree: Any, *keys: str) -> Any:
    """Return the value at a path of keys, or None if it is missing. Keys may be in the CRI's form or its JSON form."""
    for key in keys:
        if not isinstance(tree, dict):
            return None
        head, *words = key.split("_")
        tree = tree.get(key, tree.get(head + "".join(word.capitalize() for word in words)))
    return tree


def _folder_of(spec: Any) -> str:
    """Return the pod's cgroup from the OCI spec of the pause container, or "" if the spec does not contain it."""
    path = _text(_at(spec, "linux", "cgroupsPath"))
    parent = path.partition(":")[0] if ":" in path else path.rpartition("/")[0]
    return parent if "pod" in parent and (parent.startswith("/") or _SLICE.fullmatch(parent)) else ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) and len(value) < 4096 else ""


def _number(value: Any) -> int:
    """Return an integer, which may be given as a string; 0 for any other value."""
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,19}", value):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63 else 0
