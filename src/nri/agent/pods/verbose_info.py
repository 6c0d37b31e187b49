"""A runtime's verbose status of a pod or container: the kubelet's requests, as the runtime stored them.

containerd answers in the CRI's names (`cgroup_parent`), this project's engine in those of the CRI's JSON form
(`cgroupParent`, numbers as texts), CRI-O only with the resulting OCI spec, which was adjusted and so is not a request.
Missing or malformed keys are unknown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from nri.agent import cgroup_paths as paths
from nri.cri.pb import api_pb2 as pb
from nri.cri.verbose import parse_info

__all__ = ["ASKED_QUOTA", "ContainerInfo", "PodInfo", "container_info", "pod_info"]

#: Annotation of a container: the requested CPU quota, and the scaled one that the agent set instead.
ASKED_QUOTA = "agent.nri/cfs-quota"
_MAX_DIGITS = 19  # digits
_CPU_PERIOD_US = 100_000
#: A pod's folder in an OCI spec: of the pause container, in both drivers' forms.
_SLICE = re.compile(r"[\w.@-]+\.slice")


@dataclass(frozen=True, slots=True)
class PodInfo:
    """Data of a runtime on a pod: its cgroup, its class by that, and whether it uses the node's network."""

    folder: str = ""
    qos_class: str = ""
    host_network: bool = False


@dataclass(frozen=True, slots=True)
class ContainerInfo:
    """Data of a runtime on a container: its part of the pod's spec, and the OOM score that the kubelet requested."""

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

    Behind the agent's proxy the configuration has a scaled quota, with an annotation that has the requested one.
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
    """The value at a path of keys, each in the CRI's form or its JSON form; None if missing."""
    for key in keys:
        if not isinstance(tree, dict):
            return None
        head, *words = key.split("_")
        tree = tree.get(key, tree.get(head + "".join(word.capitalize() for word in words)))
    return tree


def _folder_of(spec: Any) -> str:
    """The pod's folder from the OCI spec of its pause container; "" if it is not part of it."""
    path = _text(_at(spec, "linux", "cgroupsPath"))
    parent = path.partition(":")[0] if ":" in path else path.rpartition("/")[0]
    return parent if "pod" in parent and (parent.startswith("/") or _SLICE.fullmatch(parent)) else ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) and len(value) < 4096 else ""


def _number(value: Any) -> int:
    """A whole number, also as a text; 0 for anything else."""
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,19}", value):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63 else 0
