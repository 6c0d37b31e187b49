"""The hook BatchResource: CPU weight, CPU quota and memory limit of batch (BE) pods, from requested batch resources.

Kubernetes does not enforce `kubernetes.io/batch-cpu` (thousandths of a CPU) and `kubernetes.io/batch-memory`, so the
amounts are read from the pod's annotation or spec. A pod without batch resources is unchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from nri.agent.hooks import CREATE, RUN_POD, UPDATE, Hook
from nri.agent.koordinator import names
from nri.agent.koordinator.cpu_normalization import ANNOTATION_RATIO, scaled
from nri.agent.koordinator.documents import NODE, SLO, read_spec
from nri.agent.koordinator.names import BATCH_CPU, BATCH_MEMORY, BE, LABEL_QOS, qos_class
from nri.agent.koordinator.node import BatchRule, Node
from nri.agent.koordinator.pod_annotations import AMOUNTS, remembered
from nri.agent.koordinator.quirks import Quirks
from nri.agent.model import Changes, Container, Decision, ExtendedResources, HookError, Pod
from nri.agent.ownership import Level, OwnedKnob
from nri.kube import cgroup_limits as formulas
from nri.kube.cgroup_limits import UNLIMITED
from nri.kube.shapes import Record, Table, decode

NAME: Final = "BatchResource"
_NO_DECISION: Final = Decision()
ANNOTATION_EXTENDED: Final = "node.koordinator.sh/extended-resource-spec"
SHAPE = Record({"containers": Table(Record({"requests": AMOUNTS, "limits": AMOUNTS}))})


def extended_resources(annotations: Mapping[str, str]) -> dict[str, ExtendedResources] | None:
    """Return the batch resources of each container, or None if the annotation is absent or has no containers."""
    text = annotations.get(ANNOTATION_EXTENDED)
    resources: dict[str, ExtendedResources] | None = None
    if text is not None:
        resources = remembered(ANNOTATION_EXTENDED, text, "extended", _extended)
    return resources


def annotated(annotations: Mapping[str, str]) -> dict[str, ExtendedResources] | None:
    """Return the batch resources of each container, or None if the annotation is absent or unreadable."""
    try:
        return extended_resources(annotations)
    except ValueError:
        return None


def batch_request(containers: Iterable[ExtendedResources]) -> int:
    """Return the batch CPU that containers request, in thousandths of a CPU."""
    return sum(max(formulas.amount(container.requests, names.BATCH_CPU), 0) for container in containers)


def _extended(text: str) -> dict[str, ExtendedResources] | None:
    spec = decode(text, SHAPE).get("containers")
    if spec is None:
        return None
    return {
        name: ExtendedResources(requests=amounts.get("requests", {}), limits=amounts.get("limits", {}))
        for name, amounts in spec.items()
    }


def has_cfs_quota(spec: Any) -> bool:
    """Return whether batch pods have a CPU quota. They have none if a quota of their parent cgroup suppresses them."""
    threshold = read_spec(spec).get("resourceUsedThresholdWithBE", {})
    return not (threshold.get("enable", False) and threshold.get("cpuSuppressPolicy", "") == "cfsQuota")


def pod(context: Pod, rule: BatchRule, quirks: Quirks = Quirks.DEFAULT) -> Decision:
    """Decide for a batch pod: the sum of its containers' amounts, or unlimited if a container is unlimited.

    Raises HookError if the annotation is unreadable and the spec has no batch resources.
    """
    if qos_class(context.labels) != BE:
        return _NO_DECISION
    spec = _spec(context, quirks)
    if spec is None:
        return _NO_DECISION
    if quirks.empty_batch_spec_ignored and not spec:
        return _NO_DECISION
    requested = batch_request(spec.values())
    changes = Changes(
        {
            "cpu.shares": formulas.shares(requested),
            "cpu.cfs_quota": _quota(rule, _limit(spec.values(), BATCH_CPU), quirks),
            "memory.limit": _limit(spec.values(), BATCH_MEMORY),
        }
    )
    if not spec:
        reason = f'annotation {ANNOTATION_EXTENDED} names no container; compat = "reference" treats that as 0'
        return Decision(changes, reason)
    return Decision(changes, "batch resources of the pod's containers")


def container(context: Container, rule: BatchRule, quirks: Quirks = Quirks.DEFAULT) -> Decision:
    """Decide for a container of a batch pod. Raises HookError if the annotation is unreadable."""
    if qos_class(context.pod.labels) != BE:
        return _NO_DECISION
    spec = context.extended
    if spec is None or not _is_batch(spec):
        spec = (_annotated_resources(context.pod.annotations, quirks) or {}).get(context.name)
    if spec is None:
        return _NO_DECISION
    memory = formulas.amount(spec.limits, BATCH_MEMORY)
    changes = Changes(
        {
            "cpu.shares": formulas.shares(max(formulas.amount(spec.requests, BATCH_CPU), 0)),
            "cpu.cfs_quota": _quota(rule, formulas.amount(spec.limits, BATCH_CPU), quirks),
            "memory.limit": memory if memory > 0 else UNLIMITED,
        }
    )
    return Decision(changes, "batch resources of the container")


def _spec(context: Pod, quirks: Quirks) -> Mapping[str, ExtendedResources] | None:
    """Return the batch resources of a pod's containers from the spec, or else from the annotation, or else None."""
    if context.extended is not None:
        batch = {name: resources for name, resources in context.extended.items() if _is_batch(resources)}
        if batch or not context.extended:
            return batch
    return _annotated_resources(context.annotations, quirks)


def _is_batch(resources: ExtendedResources) -> bool:
    """Return whether extended resources are batch resources, or there are no extended resources."""
    return not (resources.requests or resources.limits) or any(
        name in part for name in (BATCH_CPU, BATCH_MEMORY) for part in (resources.requests, resources.limits)
    )


def _annotated_resources(annotations: Mapping[str, str], quirks: Quirks) -> Mapping[str, ExtendedResources] | None:
    try:
        return extended_resources(annotations)
    except ValueError as error:
        if quirks.bad_batch_spec_told:
            raise HookError(NAME, str(error)) from None
        return None


def _quota(rule: BatchRule, milli_cpu: int, quirks: Quirks) -> int:
    """Return the CPU quota for a limit. It is unlimited while the parent cgroup of batch pods has a quota."""
    if rule.has_quota is False:
        return UNLIMITED
    return scaled(formulas.quota_us(milli_cpu), -1 if rule.ratio is None else rule.ratio, quirks)


def _limit(containers: Collection[ExtendedResources], name: str) -> int:
    limits = [formulas.amount(container.limits, name) for container in containers]
    return UNLIMITED if any(limit <= 0 for limit in limits) else sum(limits)


def _decide_container(context: Container, node: Node) -> Decision:
    return container(context, node.batch, node.quirks)


HOOK: Final = Hook(
    NAME,
    True,
    (SLO, NODE),
    (LABEL_QOS, ANNOTATION_EXTENDED),
    {
        RUN_POD: lambda context, node: pod(context, node.batch, node.quirks),
        CREATE: _decide_container,
        UPDATE: _decide_container,
    },
    tuple(
        owns
        for level in (Level.POD, Level.CONTAINER)
        for owns in (
            OwnedKnob(level, "cpu.shares", frozenset({BE})),
            OwnedKnob(level, "cpu.cfs_quota", frozenset({BE}), own_cpus=False),
            OwnedKnob(level, "memory.limit", frozenset({BE})),
        )
    ),
    document_keys=((SLO, "resourceUsedThresholdWithBE.cpuSuppressPolicy"), (NODE, f"annotation {ANNOTATION_RATIO}")),
)
