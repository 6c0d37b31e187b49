"""The verbose answers of a runtime about a pod and a container: the kubelet's own requests, as the runtime kept them.

Runtimes say them as JSON of their own: containerd in the words of the CRI (`cgroup_parent`), this project's engine in
those of its JSON form (`cgroupParent`, numbers as texts), CRI-O only as the OCI spec that came of them, which has been
adjusted since and is no request. A key that is missing, or has another form, is not known. Pure. The end of the
sources.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from nri.agent import cgroup_paths as paths
from nri.cri.pb import api_pb2 as pb
from nri.cri.verbose import parse_info

__all__ = ["ASKED_QUOTA", "ContainerInfo", "PodInfo", "container_info", "pod_info"]

#: Annotation of a container: the CPU quota that was asked for, and the one that the agent has made of it.
ASKED_QUOTA = "agent.nri/cfs-quota"
_LONGEST_NUMBER = 19  # digits
_CPU_PERIOD_US = 100_000
#: A pod's folder in an OCI spec: of the pause container, in both drivers' forms.
_SLICE = re.compile(r"[\w.@-]+\.slice")


@dataclass(frozen=True, slots=True)
class PodInfo:
    """A runtime's words on a pod: its cgroup parent, its class by that, and if it has the network of the node."""

    folder: str = ""
    qos_class: str = ""
    host_network: bool = False


@dataclass(frozen=True, slots=True)
class ContainerInfo:
    """A runtime's words on a container: its part of the pod's spec, and the OOM score that the kubelet asked for."""

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

    Behind the agent's own proxy its configuration holds a quota that was scaled already, with a note of what was asked.
    """
    info = parse_info(answer.info)
    resources = _at(info, "config", "linux", "resources")
    if not isinstance(resources, dict):
        return ContainerInfo()
    shares, quota = _number(_at(resources, "cpu_shares")), _number(_at(resources, "cpu_quota"))
    annotations = _at(info, "config", "annotations")
    asked, _, made = _text(annotations.get(ASKED_QUOTA) if isinstance(annotations, dict) else "").partition(" ")
    if quota > 0 and made == str(quota) and asked.isascii() and asked.isdecimal() and len(asked) < _LONGEST_NUMBER:
        quota = int(asked)
    period = _number(_at(resources, "cpu_period")) or _CPU_PERIOD_US
    memory, score = _number(_at(resources, "memory_limit_in_bytes")), _at(resources, "oom_score_adj")
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    if shares > 2:  # 2 is what the kubelet asks for a container without a request
        requests["cpu"] = f"{-(-shares * 1000 // 1024)}m"
    if quota > 0:
        limits["cpu"] = f"{quota * 1000 // period}m"
    if memory > 0:
        limits["memory"] = str(memory)
    return ContainerInfo(
        {"resources": {"requests": requests, "limits": limits}}, None if score is None else _number(score)
    )


def _at(tree: Any, *keys: str) -> Any:
    """The value at a path of keys, each in the CRI's form or in that of its JSON; None if there is none."""
    for key in keys:
        if not isinstance(tree, dict):
            return None
        head, *rest = key.split("_")
        tree = tree.get(key, tree.get(head + "".join(word.capitalize() for word in rest)))
    return tree


def _folder_of(spec: Any) -> str:
    """The pod's folder by the OCI spec of its pause container; "" if that does not say it."""
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
