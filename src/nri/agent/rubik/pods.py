"""Pods as rubik's services see them, and their annotations: what cannot be read, and what nothing reads.

Rules: pure, but for the numbers of a disk. A limit of CPUs is that of the pod's spec, which a source of pods may have
decoded. Next: `nri.agent.rubik.services`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Mapping
from fractions import Fraction
from typing import Any, Final
from weakref import WeakKeyDictionary

from nri.agent.loops.round import StrategyPod
from nri.agent.rubik.configuration import Node
from nri.agent.rubik.decisions import cpi, dyn_cache, io_limit, quota_burst, quota_turbo
from nri.agent.rubik.decisions.pods import PREEMPTIBLE, Container, Pod, offline
from nri.host import Root
from nri.kube.pod_resources import container_amounts, pod_limit, pod_total
from nri.kube.quantity import ceil
from nri.policies import formulas
from nri.policies.contexts import ExtendedResources, PodContext
from nri.policies.shapes import Unread, meant

__all__ = ["OFFLINE", "ONLINE", "block_device", "class_of", "limit_of", "pod_of", "request_of", "unread", "unreadable"]

OFFLINE, ONLINE = "offline", "online"
_DOMAIN: Final = "volcano.sh/"
#: The annotations, by the service that reads each, with what raises ValueError for one that cannot be read.
_READERS: Final[Mapping[str, Callable[[Mapping[str, str]], object]]] = {
    "quotaBurst": quota_burst.burst_of,
    "ioLimit": io_limit.check,
    "dynCache": lambda annotations: dyn_cache.group_of(Pod("", annotations=annotations), "static"),
}
_SWITCHES: Final = (PREEMPTIBLE, quota_turbo.ANNOTATION)
_ANNOTATIONS: Final = (
    *_SWITCHES,
    quota_burst.ANNOTATION,
    io_limit.ANNOTATION,
    dyn_cache.ANNOTATION,
    cpi.ANNOTATION,
)
#: The pods of the rounds' objects, as long as these are.
_SEEN: Final[WeakKeyDictionary[StrategyPod, Pod]] = WeakKeyDictionary()
#: How alike two names are that differ by a slip alone.
_ALIKE: Final = 0.88


def class_of(pod: PodContext) -> str:
    """Whether a pod is offline or online."""
    return OFFLINE if offline(Pod("", annotations=pod.annotations, labels=pod.labels)) else ONLINE


def pod_of(pod: StrategyPod) -> Pod:
    """Return a pod of a round as a service sees it; rounds have the same object while nothing of the pod changes."""
    found = _SEEN.get(pod)
    if found is None:
        found = _SEEN[pod] = _pod_of(pod)
    return found


def _pod_of(pod: StrategyPod) -> Pod:
    limits = {each.get("name", ""): _cpu_limit(each) for each in pod.specs}
    namespace, _, name = pod.key.partition("/")
    return Pod(
        uid=pod.uid,
        name=name,
        namespace=namespace,
        folder=pod.folder,
        annotations=pod.annotations,
        labels=pod.labels,
        started=pod.started,
        host_network=bool((pod.manifest.get("spec") or {}).get("hostNetwork")),
        containers=tuple(
            Container(each.id, each.name, each.cgroup_parent, limits.get(each.name)) for each in pod.containers
        ),
    )


def block_device(root: Root, path: str) -> str:
    """Return the numbers (`8:0`) of a block device; "" if there is none at this path of the machine."""
    try:
        descriptor = root.open(path, os.O_PATH)
    except (OSError, ValueError):
        return ""
    try:
        found = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    return f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}" if stat.S_ISBLK(found.st_mode) else ""


def unreadable(context: PodContext, _node: Node, strategies: Collection[str]) -> dict[str, str]:
    """Say what is wrong with a pod's annotations, by the service that reads each."""
    wrong: dict[str, str] = {}
    for service, read in _READERS.items():
        try:
            read(context.annotations)
        except ValueError as error:
            if service in strategies:
                wrong[service] = str(error)
    return wrong


def unread(
    labels: Mapping[str, str], annotations: Mapping[str, str], _extended: Mapping[str, ExtendedResources] | None
) -> list[str]:
    """Return a line for each label or annotation that is nearly one that a service reads, or makes no sense."""
    found = []
    for given, known in ((annotations, _ANNOTATIONS), (labels, (PREEMPTIBLE,))):
        for key, value in given.items():
            near = meant(key, known, _ALIKE) if key.startswith(_DOMAIN) and key not in known else ""
            if near:
                found.append(str(Unread.of(key, near)))
            if key in known and key in _SWITCHES and value not in ("true", "false"):
                found.append(f"{key}: {value[:40]!r} is neither true nor false, and has no effect")
    return found


def request_of(pod: StrategyPod, name: str) -> int:
    """Return what a pod requests of a resource, rounded up to whole units; 0 for nothing."""
    return ceil(pod_total(pod.manifest.get("spec") or {}, "requests").get(name, Fraction(0)))


def limit_of(pod: StrategyPod) -> float:
    """The limit in CPUs that a kubelet gives a pod's own cgroup; 0 for none."""
    return ceil(pod_limit(pod.manifest.get("spec") or {}, "cpu") * 1000) / 1000


def _cpu_limit(container: Mapping[str, Any]) -> float:
    """The limit of a container in CPUs; 0 for none."""
    return max(formulas.milli(container_amounts(container, "limits"), "cpu"), 0) / 1000
