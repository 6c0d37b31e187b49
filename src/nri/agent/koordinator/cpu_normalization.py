"""The hook CPUNormalization: smaller CPU quotas on nodes with faster CPUs, so that a limit is the same everywhere.

It applies to pods that share CPUs (LS, or no class and no exclusive CPUs), with the ratio in the node's annotation. If
the ratio is 1 or less, the requested quota is written, so that a ratio that falls to 1 restores the quota.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from nri.agent.hooks import CREATE, RUN_POD, UPDATE, Hook
from nri.agent.koordinator import cpuset
from nri.agent.koordinator.documents import NODE
from nri.agent.koordinator.names import LABEL_QOS, LS, NONE, qos_class
from nri.agent.koordinator.node import NO_RATIO, Node
from nri.agent.koordinator.quirks import Quirks
from nri.agent.model import Changes, Container, Decision, Pod, Resources
from nri.agent.ownership import Level, OwnedKnob
from nri.kube.cgroup_limits import MIN_QUOTA_US

NAME: Final = "CPUNormalization"
ANNOTATION_RATIO: Final = "node.koordinator.sh/cpu-normalization-ratio"
#: Smaller changes of the ratio are ignored.
_EPSILON: Final = 0.01


def ratio_of(node: Any) -> float:
    """Return the ratio of a node, or -1 if it has none. Raises ValueError if the ratio is not a positive number."""
    if not isinstance(node, dict) or not node:
        raise ValueError("no Node document")
    text = ((node.get("metadata") or {}).get("annotations") or {}).get(ANNOTATION_RATIO)
    if text is None:
        return NO_RATIO
    try:
        ratio = float(text) if text.isascii() and text == text.strip() and "_" not in text else math.nan
    except ValueError:
        ratio = math.nan
    if not ratio > 0 or math.isinf(ratio):
        raise ValueError(f"annotation {ANNOTATION_RATIO}: {text!r} is not a number above 0")
    return ratio


def same_ratio(old: float | None, new: float | None) -> bool:
    """Return whether two ratios are so similar that quotas need not be written again."""
    if old is None or new is None:
        return old is new
    return (old == NO_RATIO) == (new == NO_RATIO) and abs(old - new) < _EPSILON


def scaled(quota: int, ratio: float, quirks: Quirks = Quirks.DEFAULT) -> int:
    """Return the quota on a CPU that is `ratio` times as fast. On a slower CPU the quota is unchanged."""
    if quota <= 0 or ratio <= 1:
        return quota
    least = MIN_QUOTA_US if quirks.scaled_quota_is_possible else 1
    return max(math.ceil(quota / ratio), min(quota, least))


def pod(context: Pod, ratio: float = NO_RATIO, quirks: Quirks = Quirks.DEFAULT) -> Decision:
    """Decide a pod's quota, which is known only in standalone mode."""
    return _decision(context.resources, context.labels, context.annotations, ratio, quirks)


def container(context: Container, ratio: float = NO_RATIO, quirks: Quirks = Quirks.DEFAULT) -> Decision:
    """Decide a container's quota."""
    return _decision(context.resources, context.pod.labels, context.pod.annotations, ratio, quirks)


def shares_cpus(labels: Mapping[str, str], annotations: Mapping[str, str]) -> bool:
    """Return whether a pod shares its CPUs. An unreadable annotation does not assign exclusive CPUs."""
    qos = qos_class(labels)
    if qos != NONE:
        return qos == LS
    try:
        return not cpuset.own_cpuset(annotations)
    except ValueError:
        return True


def _decision(
    resources: Resources | None, labels: Mapping[str, str], annotations: Mapping[str, str], ratio: float, quirks: Quirks
) -> Decision:
    quota = None if resources is None else resources.cfs_quota
    if ratio == NO_RATIO or quota is None or quota <= 0 or not shares_cpus(labels, annotations):
        return Decision()
    return Decision(
        Changes({"cpu.cfs_quota": scaled(quota, ratio, quirks)}), f"the node's CPUs are {ratio:g} times as fast"
    )


def _decide_container(context: Container, node: Node) -> Decision:
    return container(context, node.ratio, node.quirks)


HOOK: Final = Hook(
    NAME,
    False,
    (NODE,),
    (LABEL_QOS, cpuset.ANNOTATION_STATUS),
    {
        RUN_POD: lambda context, node: pod(context, node.ratio, node.quirks),
        CREATE: _decide_container,
        UPDATE: _decide_container,
    },
    tuple(
        OwnedKnob(level, "cpu.cfs_quota", frozenset({LS, NONE}), own_cpus=False)
        for level in (Level.POD, Level.CONTAINER)
    ),
    document_keys=((NODE, f"annotation {ANNOTATION_RATIO}"),),
)
